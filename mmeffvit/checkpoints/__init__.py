"""Released weights: where they lie, how they are read, what their keys are called here."""

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
