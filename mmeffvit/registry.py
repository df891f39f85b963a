"""The registries of the package, children of mmengine's root registries.

A backbone has two names. ``mmeffvit.SwiftFormer`` works in any config, because mmengine imports
this package when it encounters the scope. Plain ``SwiftFormer`` works once ``mmeffvit`` has been
imported, for example by ``custom_imports = dict(imports=['mmeffvit'])``.
"""

import sys
from importlib.util import find_spec

from mmengine.registry import DATASETS as ROOT_DATASETS
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import OPTIM_WRAPPERS as ROOT_OPTIM_WRAPPERS
from mmengine.registry import TRANSFORMS as ROOT_TRANSFORMS
from mmengine.registry import Registry
from torch import nn

# heads based on those of mmdet or mmseg, either of which may not be installed
HEADS = {'mmdet': 'mmeffvit.detection', 'mmseg': 'mmeffvit.segmentation'}
# mmpretrain takes seconds to import and is of no use to the others: it is there already, or its
# first config imports this
CLASSIFICATION = 'mmeffvit.classification'
OF_CLASSIFIERS = [CLASSIFICATION] if 'mmpretrain' in sys.modules else []

MODELS = Registry(
    'model',
    parent=ROOT_MODELS,
    scope='mmeffvit',
    locations=[
        'mmeffvit.backbones',
        'mmeffvit.distillation',
        'mmeffvit.necks',
        *(module for package, module in HEADS.items() if find_spec(package)),
        *OF_CLASSIFIERS,
    ],
)
TRANSFORMS = Registry(
    'transform',
    parent=ROOT_TRANSFORMS,
    scope='mmeffvit',
    locations=['mmeffvit.datasets.transforms'],
)
DATASETS = Registry('dataset', parent=ROOT_DATASETS, scope='mmeffvit', locations=OF_CLASSIFIERS)
OPTIM_WRAPPERS = Registry(
    'optim_wrapper', parent=ROOT_OPTIM_WRAPPERS, scope='mmeffvit', locations=OF_CLASSIFIERS
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
    for registry in (ROOT_MODELS, *ROOT_MODELS.children.values()):
        other = registry.module_dict.get(name)
        if other is not None and registry is not MODELS:
            raise KeyError(
                f'two packages register a model named {name!r}: {other.__module__}.{name} in the '
                f'registry of {registry.scope!r} and {cls.__module__}.{name}. Plain {name!r} in a '
                f'config would be ambiguous: register yours under another name, '
                f"`@MODELS.register_module(name='My{name}')`, or do not import both packages."
            )
    MODELS.register_module(module=cls)
    ROOT_MODELS.register_module(module=cls)
    return cls
