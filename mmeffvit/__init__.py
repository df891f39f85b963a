"""Efficient ViT backbones for dense prediction with mmdet 3.x and mmseg 1.x.

Importing this registers the backbones in mmengine's root registry, and lets torch >= 2.6 load the
checkpoints of mmengine's runner. It imports neither host, and no operator of mmcv.
"""

from importlib import import_module
from typing import Any

from . import backbones
from .engine.safe_globals import allow_runner_checkpoints
from .resources import resource_dir
from .version import __version__

allow_runner_checkpoints()

# names that are imported when they are first used
LAZY = {'list_models': '.zoo'}

__all__ = ['__version__', 'backbones', 'list_models', 'resource_dir']


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
