"""The normalization of images against what the backbone's weights expect."""

from collections.abc import Iterator, Sequence
from typing import Any

from mmengine.config import Config

from mmeffvit.config.build import is_pretrained
from mmeffvit.config.datasets import settings_of

from .findings import Finding, fault, fine, note, unchecked
from .step import Step

TOLERANCE = 0.5  # of 255: recipes round the mean and the deviation differently


def check_inputs(step: Step, config: Config) -> Iterator[Finding]:
    """Compare mean, deviation and channel order; images are read as BGR, weights expect RGB.

    A model that starts from random weights learns any normalization: a difference is noted then.
    """
    backbone = step.backbone
    kind = type(backbone).__name__
    if not hasattr(backbone, 'input_mean'):
        yield unchecked(f'normalization of images: {kind} does not say what it expects')
        return
    mean, std, rgb, where = normalization(step, config)
    expected_mean, expected_std = list(backbone.input_mean), list(backbone.input_std)
    cures = []
    if not close(mean, expected_mean):
        cures.append(f'mean={expected_mean}')
    if not close(std, expected_std):
        cures.append(f'std={expected_std}')
    if not rgb:
        cures.append('to_rgb=True' if where == 'Normalize' else 'bgr_to_rgb=True')
    if cures:
        found, advice = (fault, '') if starts_trained(config) else (note, ' if it gets weights')
        yield found(
            f'{kind} expects RGB with mean {expected_mean} and std {expected_std}, but gets '
            f'{"RGB" if rgb else "BGR"} with mean {mean} and std {std}: set '
            f'{where} to {", ".join(cures)}{advice}'
        )
    else:
        yield fine(f'{kind} gets RGB with mean {expected_mean} and std {expected_std}')


def normalization(step: Step, config: Config) -> tuple[list[float], list[float], bool, str]:
    """Mean, deviation, whether RGB, and who says so: the preprocessor, else the pipeline."""
    settings: dict[str, Any] = step.settings.get('data_preprocessor') or {}
    order = 'bgr_to_rgb'
    where = 'model.data_preprocessor'
    if settings.get('mean') is None:
        for transform in settings_of(config.get('train_dataloader'), 'Normalize'):
            settings, order, where = transform, 'to_rgb', 'Normalize'
            break
    default = where == 'Normalize'  # to_rgb is True unless said otherwise
    mean, std = settings.get('mean') or [0.0] * 3, settings.get('std') or [1.0] * 3
    return list(map(float, mean)), list(map(float, std)), bool(settings.get(order, default)), where


def starts_trained(config: Config) -> bool:
    """Whether the config names weights for the backbone or for the whole model."""
    model = config.model.get('detector', config.model)
    backbone = model.get('backbone') or {}
    named = (config.get('load_from'), model.get('pretrained'), backbone.get('pretrained'))
    return any(named) or any(is_pretrained(part.get('init_cfg')) for part in (model, backbone))


def close(values: Sequence[float], expected: Sequence[float]) -> bool:
    pairs = zip(values, expected, strict=False)
    return len(values) == 3 and all(abs(a - b) <= TOLERANCE for a, b in pairs)
