"""Efficient ViT backbones for dense prediction with mmdet 3.x and mmseg 1.x.

Importing this registers the backbones in mmengine's root registry, and makes mmengine load
checkpoints with a safe reader that executes no code in them. It imports neither mmdet nor mmseg,
nor mmcv's operators. Where torch and mmengine are not installed, exported files still run:
:class:`mmeffvit.deploy.OnnxPredictor`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .utils.resources import resource_dir
from .version import __version__

if find_spec('torch') and find_spec('mmengine'):
    from . import backbones
    from .engine.checkpoint_loader import guard_checkpoints

    guard_checkpoints()

# names that are imported on first use
LAZY = {
    'list_models': '.zoo',
    'get_model': '.zoo.models',
    'save_pretrained': '.zoo.hub',
    'push_to_hub': '.zoo.hub',
    'Predictor': '.inference.predictor',
}

__all__ = [
    'Predictor',
    '__version__',
    'backbones',
    'get_model',
    'list_models',
    'push_to_hub',
    'resource_dir',
    'save_pretrained',
]


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
