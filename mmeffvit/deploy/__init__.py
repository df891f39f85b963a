"""Fusing trained models, exporting them to files for other runtimes, and running these.

The predictor also runs where torch is not installed.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime.predictor import ExportedPredictor

if find_spec('torch'):
    from .fuse import fuse

__all__ = ['ExportedPredictor', 'fuse']


def __getattr__(name: str) -> Any:
    if name == 'ExportedPredictor':
        from .runtime.predictor import ExportedPredictor  # late, since it needs OpenCV

        return ExportedPredictor
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
