"""The registries of the package, children of mmengine's root registries.

A backbone has two names. ``mmeffvit.SwiftFormer`` works in any config, because mmengine imports
this package when it encounters the scope. Plain ``SwiftFormer`` works once ``mmeffvit`` has been
imported, for example by ``custom_imports = dict(imports=['mmeffvit'])``. This module imports none
of them: :mod:`mmeffvit.registry` does.
"""

from importlib.util import find_spec

from mmengine import registry as root
from mmengine.registry import Registry
from torch import nn

# heads based on those of mmdet or mmseg, either of which may not be installed
HEADS = {'mmdet': 'mmeffvit.models.detection', 'mmseg': 'mmeffvit.models.segmentation'}
INSTALLED_HEADS = [module for package, module in HEADS.items() if find_spec(package)]
# not a location: mmpretrain takes seconds to import, and only configs of classifiers need this;
# our commands import it for them, and `custom_imports` does so elsewhere
CLASSIFICATION = 'mmeffvit.models.classification'


def child_of(parent: Registry, *locations: str) -> Registry:
    """Our registry below one of mmengine's; its modules are imported when it is first searched."""
    return Registry(parent.name, parent=parent, scope='mmeffvit', locations=list(locations))


MODELS = child_of(
    root.MODELS,
    'mmeffvit.models',
    'mmeffvit.train.distillation',
    'mmeffvit.models.necks',
    *INSTALLED_HEADS,
)
TRANSFORMS = child_of(root.TRANSFORMS, 'mmeffvit.data.transforms')
DATASETS = child_of(root.DATASETS, *INSTALLED_HEADS)
HOOKS = child_of(
    root.HOOKS,
    'mmeffvit.train.engine.checkpoints',
    'mmeffvit.train.engine.ema',
    'mmeffvit.train.engine.evaluate',
    'mmeffvit.train.distillation.teacher',
)
METRICS = child_of(
    root.METRICS, *(['mmeffvit.train.engine.coco_metric'] if find_spec('mmdet') else [])
)
TASK_UTILS = child_of(root.TASK_UTILS, *INSTALLED_HEADS)
OPTIM_WRAPPERS = child_of(root.OPTIM_WRAPPERS, 'mmeffvit.train.engine.optimizer')


def register_backbone(cls: type[nn.Module]) -> type[nn.Module]:
    """Register a backbone under its scoped name and under its plain name.

    Args:
        cls: The class; its ``__name__`` is the name in configs.

    Raises:
        KeyError: If another package has registered the plain name, in the root registry or in
            mmdet's or mmseg's: a config would silently get one of the two.
    """
    name = cls.__name__
    own = MODELS.module_dict.get(name)
    if own is not None and own.__module__ != cls.__module__:  # else it is reloaded
        own = None
    for registry in (root.MODELS, *root.MODELS.children.values()):
        other = registry.module_dict.get(name)
        if other not in (None, own) and registry is not MODELS:
            raise KeyError(
                f'two packages register a model named {name!r}: {other.__module__}.{name} in the '
                f'registry of {registry.scope!r} and {cls.__module__}.{name}. Plain {name!r} in a '
                f'config would be ambiguous: register yours under another name, '
                f"`@MODELS.register_module(name='My{name}')`, or do not import both packages."
            )
    for registry in (MODELS, root.MODELS):
        registry.register_module(module=cls, force=own is not None)
    return cls


def families() -> dict[str, type[nn.Module]]:
    """The registered backbones that have a variant table, by name."""
    kinds = sorted(MODELS.module_dict.items())
    return {name: cls for name, cls in kinds if getattr(cls, 'variants', None)}
