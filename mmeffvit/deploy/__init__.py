"""From a trained model to a fast one, and to files for other programs."""

from typing import Any

from .fuse import fuse

__all__ = ['OnnxPredictor', 'fuse']


def __getattr__(name: str) -> Any:
    if name == 'OnnxPredictor':  # ONNX Runtime is imported by those who use it
        from .predictor.predictor import OnnxPredictor

        return OnnxPredictor
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
