"""Released weights: where they lie, how they are read, what their keys are called here."""

from .errors import CheckpointError
from .load import load_pretrained
from .read import read_checkpoint
from .rename import Layout, Table, rename

__all__ = [
    'CheckpointError',
    'Layout',
    'Table',
    'load_pretrained',
    'read_checkpoint',
    'rename',
]
