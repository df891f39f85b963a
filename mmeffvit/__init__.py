"""Efficient ViT backbones for dense prediction with mmdet 3.x and mmseg 1.x.

Importing this registers the backbones in mmengine's root registry, and lets mmengine read
checkpoints by a reader that runs no code of theirs. It imports neither mmdet nor mmseg, and no
operator of mmcv.
"""

from . import backbones
from .engine.checkpoint_loader import guard_checkpoints
from .utils.resources import resource_dir
from .version import __version__

guard_checkpoints()

__all__ = ['__version__', 'backbones', 'resource_dir']
