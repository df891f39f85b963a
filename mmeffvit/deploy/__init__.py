"""Fusing trained models, exporting them to files for other runtimes, and running these.

The predictor also runs where torch is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fusion import fuse
    from .runtime.predictor import ExportedPredictor

LAZY = {'ExportedPredictor': '.runtime.predictor', 'fuse': '.fusion'}  # they need OpenCV, torch

__all__ = ['ExportedPredictor', 'fuse']


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
