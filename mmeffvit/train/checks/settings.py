"""Settings that a step does not test: the normalization of images, and names without a scope."""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS

from mmeffvit.config.datasets import settings_of
from mmeffvit.config.found import imports_of
from mmeffvit.config.values import dicts_in
from mmeffvit.models.checkpoints.pretrained import is_pretrained

from .findings import Finding, fault, note, passed, unchecked
from .step import Step

TOLERANCE = 0.5  # of 255: recipes round mean and standard deviation differently


def check_inputs(step: Step, config: Config) -> Iterator[Finding]:
    """Compare mean, std and channel order; images are loaded as BGR, weights expect RGB.

    With random initial weights any normalization works, so a difference is only a note.
    """
    backbone = step.backbone
    kind = type(backbone).__name__
    if not hasattr(backbone, 'input_mean'):
        yield unchecked(f'normalization of images: {kind} does not declare its own')
        return
    mean, std, rgb, where, order = normalization(step, config)
    expected_mean, expected_std = list(backbone.input_mean), list(backbone.input_std)
    fixes = []
    if not is_close(mean, expected_mean):
        fixes.append(f'mean={expected_mean}')
    if not is_close(std, expected_std):
        fixes.append(f'std={expected_std}')
    if not rgb:
        fixes.append(f'{order}=True')
    if fixes:
        found, advice = (fault, '') if loads_weights(config) else (note, ' if it gets weights')
        yield found(
            f'{kind} expects RGB with mean {expected_mean} and std {expected_std}, but gets '
            f'{"RGB" if rgb else "BGR"} with mean {mean} and std {std}: set '
            f'{where} to {", ".join(fixes)}{advice}'
        )
    else:
        yield passed(f'{kind} gets RGB with mean {expected_mean} and std {expected_std}')


def check_pretrained(step: Step, config: Config) -> Iterator[Finding]:
    """Report weights that mmseg and mmdet give to the backbone as an argument that it lacks."""
    model, kind = config.model.get('detector', config.model), type(step.backbone)
    if model.get('pretrained') and 'pretrained' not in signature(kind).parameters:
        yield fault(
            f'{kind.__name__} has no argument pretrained, which it gets from the model: set '
            "model.pretrained=None, and weights with init_cfg=dict(type='Pretrained', "
            'checkpoint=...) of model.backbone'
        )


def normalization(step: Step, config: Config) -> tuple[list[float], list[float], bool, str, str]:
    """Mean, std, whether RGB, where they are set (preprocessor or pipeline), and RGB's key."""
    settings: dict[str, Any] = step.settings.get('data_preprocessor') or {}
    order = 'to_rgb' if step.scope == 'mmpretrain' else 'bgr_to_rgb'
    where = f'{step.place}.data_preprocessor'
    if step.place != 'model' and config.model.get('data_preprocessor'):  # of a wrapper
        settings, where = config.model.data_preprocessor, 'model.data_preprocessor'
        while 'data_preprocessor' in settings:  # that its branches have in common
            settings, where = settings['data_preprocessor'], f'{where}.data_preprocessor'
    if settings.get('mean') is None:
        for transform in settings_of(config.get('train_dataloader'), 'Normalize'):
            settings, order, where = transform, 'to_rgb', 'Normalize'
            break
    default = where == 'Normalize'  # to_rgb defaults to True
    mean, std = settings.get('mean') or [0.0] * 3, settings.get('std') or [1.0] * 3
    rgb = bool(settings.get(order, default))
    return list(map(float, mean)), list(map(float, std)), rgb, where, order


def loads_weights(config: Config) -> bool:
    """Whether the config loads weights for the backbone or the full model."""
    model = config.model.get('detector', config.model)
    backbone = model.get('backbone') or {}
    named = (config.get('load_from'), model.get('pretrained'), backbone.get('pretrained'))
    return any(named) or any(is_pretrained(part.get('init_cfg')) for part in (model, backbone))


def is_close(values: Sequence[float], expected: Sequence[float]) -> bool:
    pairs = zip(values, expected, strict=False)
    return len(values) == 3 and all(abs(a - b) <= TOLERANCE for a, b in pairs)


def check_names(config: Config) -> Iterator[Finding]:
    """Report plain names of our backbones in a config that does not import mmeffvit.

    They work here, where mmeffvit is imported, but not in other tools.
    """
    imports = imports_of(config)
    if any(name.partition('.')[0] == 'mmeffvit' for name in imports):
        return
    kinds = [settings.get('type') for _, settings in dicts_in(config.model)]
    for name in sorted({kind for kind in kinds if isinstance(kind, str) and is_own(kind)}):
        fix = f"write type='mmeffvit.{name}', or add custom_imports = dict(imports=['mmeffvit'])"
        text = f'type={name!r} works only after mmeffvit is imported, not in other tools'
        if imports:
            yield note(f'{text}, unless {", ".join(imports)} imports it: {fix}')
        else:
            yield fault(f'{text}: {fix}')


def is_own(name: str) -> bool:
    """Whether this package registers a class by this name, without a scope."""
    cls = ROOT_MODELS.module_dict.get(name)
    return cls is not None and cls.__module__.partition('.')[0] == 'mmeffvit'
