"""The registries of the package, children of mmengine's root registries.

A backbone has two names. ``mmeffvit.SwiftFormer`` works in any config, because mmengine imports
this package when it encounters the scope. Plain ``SwiftFormer`` works once ``mmeffvit`` has been
imported, for example by ``custom_imports = dict(imports=['mmeffvit'])``: this module imports the
backbones at its end.
"""

from importlib import import_module
from importlib.util import find_spec

from mmengine.registry import DATASETS as ROOT_DATASETS
from mmengine.registry import HOOKS as ROOT_HOOKS
from mmengine.registry import METRICS as ROOT_METRICS
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS as ROOT_OPTIM_WRAPPER_CONSTRUCTORS
from mmengine.registry import OPTIM_WRAPPERS as ROOT_OPTIM_WRAPPERS
from mmengine.registry import TRANSFORMS as ROOT_TRANSFORMS
from mmengine.registry import Registry
from torch import nn

# heads based on those of mmdet or mmseg, either of which may not be installed
HEADS = {'mmdet': 'mmeffvit.detection', 'mmseg': 'mmeffvit.segmentation'}
# not a location: mmpretrain takes seconds to import, and only configs of classifiers need this;
# our commands import it for them, and `custom_imports` does so elsewhere
CLASSIFICATION = 'mmeffvit.classification'

MODELS = Registry(
    'model',
    parent=ROOT_MODELS,
    scope='mmeffvit',
    locations=[
        'mmeffvit.backbones',
        'mmeffvit.distillation',
        'mmeffvit.necks',
        *(module for package, module in HEADS.items() if find_spec(package)),
    ],
)
TRANSFORMS = Registry(
    'transform',
    parent=ROOT_TRANSFORMS,
    scope='mmeffvit',
    locations=['mmeffvit.datasets.transforms'],
)
DATASETS = Registry(
    'dataset',
    parent=ROOT_DATASETS,
    scope='mmeffvit',
    locations=[module for package, module in HEADS.items() if find_spec(package)],
)
HOOKS = Registry(
    'hook',
    parent=ROOT_HOOKS,
    scope='mmeffvit',
    locations=['mmeffvit.engine.ema', 'mmeffvit.engine.scalars', 'mmeffvit.engine.teacher'],
)
METRICS = Registry(
    'metric',
    parent=ROOT_METRICS,
    scope='mmeffvit',
    locations=['mmeffvit.evaluation.coco_metric'] if find_spec('mmdet') else [],
)
OPTIM_WRAPPERS = Registry(
    'optim_wrapper',
    parent=ROOT_OPTIM_WRAPPERS,
    scope='mmeffvit',
    locations=['mmeffvit.engine.optimizer'],
)
OPTIM_WRAPPER_CONSTRUCTORS = Registry(
    'optim_wrapper_constructor',
    parent=ROOT_OPTIM_WRAPPER_CONSTRUCTORS,
    scope='mmeffvit',
    locations=['mmeffvit.engine.optimizer'],
)


def register_backbone(cls: type[nn.Module]) -> type[nn.Module]:
    """Register a backbone under its scoped name and under its plain name.

    Args:
        cls: The class; its ``__name__`` is the name in configs.

    Raises:
        KeyError: If another package has registered the plain name, in the root registry or in that
            of mmdet or mmseg: a config would silently get one of the two.
    """
    name = cls.__name__
    own = MODELS.module_dict.get(name)
    if own is not None and own.__module__ != cls.__module__:  # else it is reloaded
        own = None
    for registry in (ROOT_MODELS, *ROOT_MODELS.children.values()):
        other = registry.module_dict.get(name)
        if other not in (None, own) and registry is not MODELS:
            raise KeyError(
                f'two packages register a model named {name!r}: {other.__module__}.{name} in the '
                f'registry of {registry.scope!r} and {cls.__module__}.{name}. Plain {name!r} in a '
                f'config would be ambiguous: register yours under another name, '
                f"`@MODELS.register_module(name='My{name}')`, or do not import both packages."
            )
    for registry in (MODELS, ROOT_MODELS):
        registry.register_module(module=cls, force=own is not None)
    return cls


def families() -> dict[str, type[nn.Module]]:
    """The registered backbones that have a variant table, by name."""
    kinds = sorted(MODELS.module_dict.items())
    return {name: cls for name, cls in kinds if getattr(cls, 'variants', None)}


import_module('mmeffvit.backbones')  # registers them under their plain names
