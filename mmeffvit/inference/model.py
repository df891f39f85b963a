"""A trained model with its test pipeline."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, Compose, pseudo_collate
from mmengine.device import get_device
from mmengine.registry import TRANSFORMS, DefaultScope
from mmengine.structures import BaseDataElement
from torch import nn

from mmeffvit.checkpoints import Checkpoint
from mmeffvit.config.datasets import image_pipeline
from mmeffvit.config.load import DENSE
from mmeffvit.errors import UserError
from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.utils.text import check_names, first_line
from mmeffvit.zoo.opener import find_source, open_model

LOADER = re.compile(r'(^|\.)LoadImageFromFile$')


@dataclass
class LoadedModel:
    """A model in eval mode and its test pipeline.

    Args:
        model: The model on its device.
        config: The config of the model.
        checkpoint: The source of its weights.
        classes: Class names by label.
        dataset: The config's test dataset, not loaded; None if it has none.
        loader: The transform that reads an image file.
        pipeline: The transforms after it, without those that load annotations.
        meta: Meta information of the dataset, such as ``classes`` and ``palette``.
    """

    model: nn.Module
    config: Config
    checkpoint: Checkpoint
    classes: tuple[str, ...]
    dataset: BaseDataset | None
    loader: Any
    pipeline: Compose
    meta: Mapping[str, Any]

    @property
    def scope(self) -> str:
        """'mmdet', 'mmseg' or 'mmpretrain'."""
        return self.config.default_scope

    @property
    def label_offset(self) -> int:
        """1 if 0 is no class in the label maps of the dataset, as in ADE20K, otherwise 0."""
        return int(bool(getattr(self.dataset, 'reduce_zero_label', False)))

    def read(self, path: Path) -> np.ndarray:
        """Read an image with the config's loader: (H, W, 3) BGR.

        Raises:
            Unreadable: If it cannot be decoded completely.
        """
        read_size(path)
        try:
            return self.loader(dict(img_path=str(path)))['img']
        except Exception as error:  # decoders raise various exceptions
            raise Unreadable(f'{path} ({error})') from error

    def prepare(self, image: np.ndarray, path: Path) -> dict[str, Any]:
        """Run the test pipeline on an image of (H, W, 3)."""
        size = image.shape[:2]
        return self.pipeline(
            dict(img=image, img_path=str(path), img_id=0, img_shape=size, ori_shape=size)
        )

    @torch.no_grad()
    def predict(self, batch: Sequence[dict[str, Any]]) -> list[BaseDataElement]:
        """Predictions for prepared images, on the CPU."""
        return [sample.cpu() for sample in self.model.test_step(pseudo_collate(batch))]


def load_predictor(
    config_path: str,
    checkpoint: str | None,
    *,
    device: str = 'auto',
    cfg_options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
) -> LoadedModel:
    """Build the model of a config and load a checkpoint of a run into it.

    Args:
        config_path: A config file of mmdet or mmseg, the name of one of ours, a saved model, as a
            folder or as ``hf://OWNER/NAME``, or the work dir of a run.
        checkpoint: A checkpoint of a run with this config, or a released one for it; by default,
            the saved one, the best one of the run, or the released one.
        device: 'auto' for an accelerator if there is one, or a name such as 'cpu' or 'cuda:1'.
        cfg_options: Dotted keys and values that override the config's.
        scopes: Packages that the config may be written for.

    Raises:
        UserError: If the config, the checkpoint or the device cannot be used.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    source = find_source(config_path, cfg_options, scopes)
    target = resolve_device(device)
    opened = open_model(source, source.open_weights(checkpoint))
    config, meta = opened.config, opened.dataset_meta
    if not meta.get('classes'):
        raise UserError(
            f'neither {opened.checkpoint} nor {config_path} has the class names of the model'
        )
    with DefaultScope.overwrite_default_scope(config.default_scope):
        loader, pipeline = inference_pipeline(config)
    return LoadedModel(
        model=opened.model.to(target).eval(),
        config=config,
        checkpoint=opened.checkpoint,
        classes=check_names(meta['classes'], opened.checkpoint),
        dataset=opened.dataset,
        loader=loader,
        pipeline=pipeline,
        meta=meta,
    )


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
    if steps and LOADER.search(str(steps[0]['type'])):
        return TRANSFORMS.build(steps[0]), Compose([TRANSFORMS.build(s) for s in steps[1:]])
    raise UserError(
        f'the test pipeline of {config.filename} does not begin with LoadImageFromFile, so it '
        'cannot read images'
    )
