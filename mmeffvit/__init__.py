"""Efficient ViT backbones for dense prediction with mmdet 3.x and mmseg 1.x.

Importing this imports neither torch nor mmengine. As soon as mmengine is imported, before or after,
the backbones are registered in its root registry, and mmengine loads checkpoints with a safe reader
that executes no code in them; mmcv's Pillow backend opens only formats whose readers run no code.
Where torch and mmengine are not installed, exported files still run:
:class:`mmeffvit.ExportedPredictor`.
"""

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .utils.files import resource_dir
from .utils.imports import restore_find_loader, when_imported
from .version import __version__

if TYPE_CHECKING:
    from . import models
    from .deploy.runtime.predictor import ExportedPredictor
    from .inference.predictor import Predictor
    from .zoo import list_models
    from .zoo.hub import push_to_hub, save_pretrained
    from .zoo.models import get_model

# names that are imported on first use
LAZY = {
    'list_models': '.zoo',
    'get_model': '.zoo.models',
    'save_pretrained': '.zoo.hub',
    'push_to_hub': '.zoo.hub',
    'Predictor': '.inference.predictor',
    'ExportedPredictor': '.deploy.runtime.predictor',
}

__all__ = [
    'ExportedPredictor',
    'Predictor',
    '__version__',
    'get_model',
    'list_models',
    'models',
    'push_to_hub',
    'resource_dir',
    'save_pretrained',
]


def __getattr__(name: str) -> Any:
    if name == 'models':
        return import_module('.models', __name__)
    if name in LAZY:
        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _register() -> None:
    """Import the modules that register our classes and our checkpoint reader with mmengine."""
    restore_find_loader()
    if find_spec('torch'):
        for module in ('.registry', '.train.engine.checkpoint_loader'):
            import_module(module, __name__)


def _restrict_mmcv() -> None:
    """Have mmcv's Pillow backend, which reads label maps of mmseg, open what we open."""
    io, formats = import_module('mmcv.image.io'), import_module('.utils.image_formats', __name__)
    io.Image = SimpleNamespace(**{**vars(io.Image), 'open': formats.open_allowed})


# the first import of the registries, by whatever module, imports mmengine: they are filled after it
when_imported('mmengine', lambda: find_spec('torch') and import_module('.registries', __name__))
when_imported('mmeffvit.registries', _register)
when_imported('mmcv', _restrict_mmcv)
