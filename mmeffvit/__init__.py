"""Efficient ViT backbones for dense prediction with mmdet 3.x and mmseg 1.x.

Importing this registers the backbones in mmengine's root registry, and lets torch >= 2.6 load the
checkpoints of mmengine's runner. It imports neither host, and no operator of mmcv.
"""

from . import backbones
from .engine.safe_globals import allow_runner_checkpoints
from .resources import resource_dir
from .version import __version__

allow_runner_checkpoints()

__all__ = ['__version__', 'backbones', 'resource_dir']
