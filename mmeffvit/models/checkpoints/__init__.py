"""Released weights: sources, safe reading and key remapping."""

from mmeffvit.errors import CheckpointError

from .checkpoint import Checkpoint, Release, open_checkpoint
from .load import LoadReport, fit, load_into
from .rename import Layout, Table, rename

__all__ = [
    'Checkpoint',
    'CheckpointError',
    'Layout',
    'LoadReport',
    'Release',
    'Table',
    'fit',
    'load_into',
    'open_checkpoint',
    'rename',
]
