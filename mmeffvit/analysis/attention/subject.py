"""The model to visualize, with the preprocessing of its config or its backbone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.device import get_device
from torch import Tensor, nn

from mmeffvit.config.backbones import build_backbone, parse_backbone
from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import image_pipeline, settings_of
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models import Backbone
from mmeffvit.models.backbone import MIN_SIDE
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.train.engine.user_errors import building
from mmeffvit.utils.images import read_image
from mmeffvit.zoo.models import open_model
from mmeffvit.zoo.source import Kind, Source, classify, find_source

from .recorder import Canvas
from .sheet import InputImage

Size = tuple[int, int]
RANDOM = 'random weights'


@dataclass(frozen=True)
class Subject:
    """A model in eval mode with weights and preprocessing."""

    model: nn.Module  # a backbone, or a detector or segmentor around one
    # from the path of an image to the input batch of the backbone, and the height and width of
    # its part that the image fills
    prepare: Callable[[Path], tuple[Tensor, tuple[float, float]]]
    forward: Callable[[Tensor], Any]  # runs the part of the model that has attention
    remark: str  # where the weights come from

    def read(self, path: Path, query: tuple[float, float] | None) -> tuple[InputImage, Tensor]:
        """Read an image; the query point is in its original pixels."""
        pixels = cv2.cvtColor(read_image(path), cv2.COLOR_BGR2RGB)
        inputs, content = self.prepare(path)
        height, width = inputs.shape[2:]
        if min(height, width) < MIN_SIDE:
            raise UserError(
                f'{path} is {width} x {height} pixels after resizing; the model needs at least '
                f'{MIN_SIDE} on each side; give --shape'
            )
        if query is not None:
            x, y = query
            query = (x * content[1] / pixels.shape[1], y * content[0] / pixels.shape[0])
        return InputImage(pixels, Canvas(height, width, query), content), inputs


@contextmanager
def open_subject(target: str, checkpoint: str | None, size: Size | None) -> Iterator[Subject]:
    """Build the model given on the command line, isolated from other runs in this process.

    By default with the weights of a saved model, or the released ones of a config. For arguments
    and errors see :func:`mmeffvit.analysis.attention.run.visualize_attention`.
    """
    if classify(target) is Kind.NAME:
        with isolated('mmengine'):
            yield backbone_subject(target, checkpoint, size)
        return
    source = find_source(target)
    try:
        weights = source.open_weights(checkpoint)
    except UserError as error:
        if isinstance(error, CheckpointError) or checkpoint or source.weights:
            raise
        weights = None  # none are released
    with isolated(source.config.default_scope):
        yield config_subject(source, weights, size)


def config_subject(source: Source, weights: Checkpoint | None, size: Size | None) -> Subject:
    """The model of a config, with its test pipeline.

    A file with the full model must fit it exactly; any other is loaded as released weights of the
    backbone, with remapped keys.
    """
    is_full = weights is not None and any(key.startswith('backbone.') for key in weights.weights)
    model = open_model(source, weights if is_full else None).model
    if weights is not None and not is_full:
        load_backbone(model.backbone, weights)
    model.to(get_device()).eval()
    pipeline = make_pipeline(source.config, size)
    prepare = partial(prepare_by_pipeline, pipeline=pipeline, model=model)
    return Subject(model, prepare, model.extract_feat, remark_on(weights))


def backbone_subject(target: str, checkpoint: str | None, size: Size | None) -> Subject:
    """A backbone alone, with images normalized as its released weights expect."""
    model = build_backbone(parse_backbone(target))
    if not isinstance(model, Backbone):
        raise UserError(
            f'{target} is not a backbone of mmeffvit; attention of other models is not supported'
        )
    weights = None if checkpoint is None else open_checkpoint(checkpoint)
    if weights is not None:
        load_backbone(model, weights)
    model.to(get_device()).eval()
    prepare = partial(prepare_plainly, model=model, size=size)
    return Subject(model, prepare, model, remark_on(weights))


def load_backbone(backbone: nn.Module, weights: Checkpoint) -> None:
    """Load released weights into a backbone of this package."""
    if not isinstance(backbone, Backbone):
        raise UserError(
            f'{weights} is not a checkpoint of a run with this config, and released weights of '
            f'{type(backbone).__name__} are not supported'
        )
    backbone.load_pretrained(weights)


def remark_on(weights: Checkpoint | None) -> str:
    return RANDOM if weights is None else f'weights: {weights.path.name}'


def make_pipeline(config: Config, size: Size | None) -> Compose:
    """The test pipeline of a config without annotations, resizing to ``size`` if given."""
    pipeline = deepcopy(image_pipeline(config))
    if not pipeline:
        raise UserError(f'{config.filename} has no test_dataloader.dataset.pipeline for images')
    if size is not None:
        height, width = size
        resizes = list(settings_of(pipeline, 'Resize'))
        if not resizes:
            raise UserError(f'--shape: the test pipeline of {config.filename} has no Resize')
        for resize in resizes:
            resize.pop('scale_factor', None)
            resize['scale'] = (width, height)
        for pad in settings_of(pipeline, 'Pad'):
            if 'size' in pad:
                pad['size'] = (width, height)
    with building(config):
        return Compose(pipeline)


def prepare_by_pipeline(
    path: Path, *, pipeline: Compose, model: nn.Module
) -> tuple[Tensor, tuple[float, float]]:
    """Run the test pipeline and the data preprocessor on an image file."""
    results: dict[str, Any] = dict(img_path=str(path), img_id=0)
    content, padded = (0, 0), False
    for step in pipeline.transforms:
        results = step(results)
        # padding in the pipeline changes img_shape
        padded = padded or type(step).__name__ == 'Pad'
        if not padded and 'img_shape' in results:
            content = tuple(results['img_shape'][:2])
    inputs = model.data_preprocessor(pseudo_collate([results]), False)['inputs']
    return inputs, content


def prepare_plainly(
    path: Path, *, model: Backbone, size: Size | None
) -> tuple[Tensor, tuple[float, float]]:
    """Resize to ``size`` if given, and normalize; images of any size are allowed."""
    image = cv2.cvtColor(read_image(path), cv2.COLOR_BGR2RGB)
    if size is not None:
        image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR)
    normalized = (image - np.array(model.input_mean)) / np.array(model.input_std)
    inputs = torch.from_numpy(normalized).float().permute(2, 0, 1)[None]
    return inputs.to(next(model.parameters()).device), image.shape[:2]
