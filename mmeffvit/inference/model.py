"""Trained models of mmdet, mmseg and mmpretrain with their test pipelines."""

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.device import get_device
from mmengine.registry import TRANSFORMS, DefaultScope
from mmengine.structures import BaseDataElement
from torch import nn

from mmeffvit.config.datasets import image_pipeline, name_of
from mmeffvit.errors import UserError
from mmeffvit.models.backbone import MIN_SIDE, Backbone
from mmeffvit.train.checks.run import open_checked
from mmeffvit.utils.text import first_line
from mmeffvit.zoo.models import OpenModel
from mmeffvit.zoo.source import Source


def load_model(source: Source, checkpoint: str | None, device: str = 'auto') -> OpenModel:
    """Build the model of a source, in eval mode; see :class:`.predictor.Predictor`."""
    target = resolve_device(device)
    opened = open_checked(source, checkpoint)
    if not opened.dataset_meta.get('classes'):
        raise UserError(
            f'neither {opened.checkpoint} nor {source.target} has the class names of the model'
        )
    opened.model.to(target).eval()
    return opened


def min_side(model: nn.Module) -> int:
    """The smallest side of a prepared image, in pixels: most models pad smaller ones."""
    is_ours = isinstance(getattr(model, 'backbone', None), Backbone)
    preprocessor = model.data_preprocessor
    own = getattr(preprocessor, 'test_cfg', None) or {}  # mmseg's, which pads in tests only by it
    size = own.get('size')
    divisor = getattr(preprocessor, 'pad_size_divisor', own.get('size_divisor')) or 1
    return MIN_SIDE if is_ours and min(size or [divisor]) < MIN_SIDE else 1


@torch.no_grad()
def run_model(model: nn.Module, batch: Sequence[dict[str, Any]]) -> list[BaseDataElement]:
    """Predictions for the outputs of the test pipeline, on the CPU."""
    return [sample.cpu() for sample in model.test_step(pseudo_collate(batch))]


def resolve_device(name: str) -> torch.device:
    """The device with the given name.

    Raises:
        UserError: If it does not exist or does not work.
    """
    try:
        device = torch.device(get_device() if name == 'auto' else name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f'device {name!r} cannot be used ({first_line(error)}): give auto, cpu, cuda:0 ...'
        ) from error
    return device


def inference_pipeline(config: Config) -> tuple[Any, Compose]:
    """The transform that loads an image, and those after it without annotations.

    Raises:
        UserError: If the test pipeline does not begin with ``LoadImageFromFile``.
    """
    steps = image_pipeline(config)
    if steps and name_of(steps[0]) == 'LoadImageFromFile':
        with DefaultScope.overwrite_default_scope(config.default_scope):
            loader, *others = map(TRANSFORMS.build, steps)
        return loader, Compose(others)
    raise UserError(
        f'the test pipeline of {config.filename} does not begin with LoadImageFromFile, so it '
        'cannot read images'
    )
