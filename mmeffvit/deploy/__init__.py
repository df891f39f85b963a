"""Fusing trained models, exporting them to files for other runtimes, and running these.

The predictor also runs where torch is not installed.
"""

from importlib.util import find_spec
from typing import Any

if find_spec('torch'):
    from .fuse import fuse

__all__ = ['OnnxPredictor', 'fuse']


def __getattr__(name: str) -> Any:
    if name == 'OnnxPredictor':  # imported on demand, since it needs OpenCV
        from .predictor.predictor import OnnxPredictor

        return OnnxPredictor
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
