"""A trained model with its test pipeline and visualizer."""

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, Compose, pseudo_collate
from mmengine.device import get_device
from mmengine.registry import TRANSFORMS, VISUALIZERS, DefaultScope
from mmengine.structures import BaseDataElement
from mmengine.visualization import Visualizer
from torch import nn

from mmeffvit.checks.run import check_checkpoint, check_classes
from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.engine.launch import read_run_checkpoint
from mmeffvit.errors import UserError
from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.zoo.hub import open_model
from mmeffvit.zoo.weights import weights_of

VISUALIZER = {'mmdet': 'DetLocalVisualizer', 'mmseg': 'SegLocalVisualizer'}
OPACITY = 0.6  # of label maps over the image
ANNOTATIONS = re.compile(r'Load\w*Annotation')
LOADER = re.compile(r'(^|\.)LoadImageFromFile$')


@dataclass
class LoadedModel:
    """A model in eval mode, its test pipeline, and a visualizer of mmdet or mmseg.

    Args:
        model: The model on its device.
        config: The config of the model.
        classes: Class names by label.
        dataset: The config's test data set, not loaded; None if it has none.
        loader: The transform that reads an image file.
        pipeline: The transforms after it, without those that load annotations.
        visualizer: Draws the predictions.
    """

    model: nn.Module
    config: Config
    classes: tuple[str, ...]
    dataset: BaseDataset | None
    loader: Any
    pipeline: Compose
    visualizer: Visualizer

    @property
    def scope(self) -> str:
        """'mmdet' or 'mmseg'."""
        return self.config.default_scope

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

    def prepare(self, image: np.ndarray, path: Path, image_id: int) -> dict[str, Any]:
        """Run the test pipeline on an image of (H, W, 3)."""
        size = image.shape[:2]
        return self.pipeline(
            dict(img=image, img_path=str(path), img_id=image_id, img_shape=size, ori_shape=size)
        )

    @torch.no_grad()
    def predict(self, batch: Sequence[dict[str, Any]]) -> list[BaseDataElement]:
        """Predictions for prepared images, on the CPU."""
        return [sample.cpu() for sample in self.model.test_step(pseudo_collate(batch))]

    def draw(self, image: np.ndarray, sample: BaseDataElement, score_thr: float) -> np.ndarray:
        """Draw predictions into an image: (H, W, 3) BGR -> (H, W, 3) uint8 BGR."""
        options = dict(pred_score_thr=score_thr) if self.scope == 'mmdet' else {}
        picture = np.ascontiguousarray(image.clip(0, 255).astype(np.uint8)[..., ::-1])
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', message='.*out of bounds')  # for boxes at the border
            self.visualizer.add_datasample('', picture, sample, draw_gt=False, **options)
        return np.ascontiguousarray(self.visualizer.get_image()[..., ::-1])


def load_predictor(
    config_path: str,
    checkpoint: str | None,
    *,
    device: str = 'auto',
    cfg_options: Mapping[str, Any] | None = None,
) -> LoadedModel:
    """Build the model of a config and load a checkpoint of a run into it.

    Args:
        config_path: A config file of mmdet or mmseg, the name of one of ours, or a saved model, as
            a folder or as ``hf://OWNER/NAME``.
        checkpoint: A checkpoint of a run with this config, or a released one for it; by default,
            the saved one or the released one.
        device: 'auto' for an accelerator if there is one, or a name such as 'cpu' or 'cuda:1'.
        cfg_options: Dotted keys and values that override the config's.

    Raises:
        UserError: If the config, the checkpoint or the device cannot be used.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    config, own = open_model(config_path, cfg_options)
    scope = config.default_scope
    place = resolve_device(device)
    checkpoint = checkpoint or own or weights_of(config_path)
    content = read_run_checkpoint(checkpoint)
    # like init_default_scope, which warns if the default scope was another before
    DefaultScope.get_instance(f'predict_{time.time_ns()}', scope_name=scope)
    settings = eval_dataset(config)
    dataset = build_unread(settings) if settings else None
    model = build_model(own_model_config(config))
    check_classes(model, dataset, 'test')
    check_checkpoint(model, content, checkpoint, dataset)
    meta = {**(getattr(dataset, 'metainfo', None) or {}), **saved_meta(content)}
    if not meta.get('classes'):
        raise UserError(f'neither {checkpoint} nor {config_path} has the class names of the model')
    loader, pipeline = inference_pipeline(config)
    return LoadedModel(
        model=model.to(place).eval(),
        config=config,
        classes=tuple(meta['classes']),
        dataset=dataset,
        loader=loader,
        pipeline=pipeline,
        visualizer=build_visualizer(config, scope, meta),
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
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f'device {name!r} cannot be used ({reason}): give auto, cpu, cuda:0 ...'
        ) from (error)
    return device


def saved_meta(checkpoint: Mapping) -> dict[str, Any]:
    """Classes and palette that a run saved in its checkpoint."""
    meta = (checkpoint.get('meta') or {}).get('dataset_meta') or {}
    return {key.lower(): value for key, value in meta.items()}


def inference_pipeline(config: Config) -> tuple[Any, Compose]:
    """The transform that loads an image, and those after it without annotations.

    Raises:
        UserError: If the test pipeline does not begin with ``LoadImageFromFile``.
    """
    pipeline = eval_dataset(config).get('pipeline') or ()
    steps = [step for step in pipeline if not ANNOTATIONS.search(str(step['type']))]
    if steps and LOADER.search(str(steps[0]['type'])):
        return TRANSFORMS.build(steps[0]), Compose([TRANSFORMS.build(s) for s in steps[1:]])
    raise UserError(
        f'the test pipeline of {config.filename} does not begin with LoadImageFromFile, so images '
        'cannot be given to it'
    )


def build_visualizer(config: Config, scope: str, meta: Mapping[str, Any]) -> Visualizer:
    """The config's visualizer, or the default one, without backends that write files."""
    settings = dict(config.get('visualizer') or dict(type=f'{scope}.{VISUALIZER[scope]}'))
    # visualizers are cached by name: an existing one might have other settings
    settings.update(name=f'predict_{time.time_ns()}', vis_backends=None, save_dir=None)
    if scope == 'mmseg':
        settings.setdefault('alpha', OPACITY)
    visualizer = VISUALIZERS.build(settings)
    # a list, since mmseg does not support palettes by name
    colors = np.random.default_rng(0).integers(0, 256, (len(meta['classes']), 3)).tolist()
    visualizer.dataset_meta = {'palette': colors, **meta}
    return visualizer
