"""Released weights: sources, safe reading and key remapping."""

from mmeffvit.errors import CheckpointError

from .load import LoadReport, load_weights
from .read import read_checkpoint
from .rename import Layout, Table, rename

__all__ = [
    'CheckpointError',
    'Layout',
    'LoadReport',
    'Table',
    'load_weights',
    'read_checkpoint',
    'rename',
]
