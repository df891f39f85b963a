"""Fusing trained models, and exporting them to files for other runtimes."""

from typing import Any

from .fuse import fuse

__all__ = ['OnnxPredictor', 'fuse']


def __getattr__(name: str) -> Any:
    if name == 'OnnxPredictor':  # imported on demand, since it needs ONNX Runtime
        from .predictor.predictor import OnnxPredictor

        return OnnxPredictor
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
