"""Models of configs, and batches for them."""

import logging
import os
import re
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import MODELS, init_default_scope
from mmengine.structures import InstanceData, PixelData
from torch import nn

from mmeffvit.config.values import uses_mmpretrain
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.zoo import read_models
from tests.conftest import ROOT

ALL_CONFIGS = sorted(path.stem for path in (ROOT / 'configs').glob('*.py'))
CLASSIFIERS = [name for name in ALL_CONFIGS if name.startswith('classifier_')]
CONFIGS = [name for name in ALL_CONFIGS if name not in CLASSIFIERS]  # of mmdet and mmseg
ARCH = re.compile(r'_(\d{3}|xs|[bls]\d*)(?=_|$)')


def smallest_of_each_pairing() -> list[str]:
    """One config of every head, backbone and dataset: all their variants have the same layers."""
    pairings: dict[str, list[str]] = {}
    for name in CONFIGS:
        pairings.setdefault(ARCH.sub('', name), []).append(name)
    sizes = read_models()
    return [min(names, key=lambda name: sizes[name].parameters) for names in pairings.values()]


def one_of_each_head_and_family() -> list[str]:
    """The smallest configs in which every head and every family of backbones occurs."""
    chosen, seen = [], set()
    sizes = read_models()
    for name in sorted(smallest_of_each_pairing(), key=lambda name: sizes[name].parameters):
        head, *family = ARCH.sub('', name).removesuffix('_shapes').split('_')
        kinds = {head, '_'.join(family).removesuffix('_ade20k')}
        if not kinds <= seen:
            chosen.append(name)
            seen |= kinds
    return chosen


def load(name: str) -> Config:
    return deepcopy(read(name, os.environ.get('DATA_ROOT')))


@cache
def read(name: str, data_root: str | None) -> Config:
    """A config, which is read once for every ``DATA_ROOT`` in the environment."""
    return Config.fromfile(ROOT / 'configs' / f'{name}.py')


def theirs(package: str, path: str) -> Config:
    """A config of mmdet or mmseg, as installed with it."""
    (folder,) = find_spec(package).submodule_search_locations
    return Config.fromfile(Path(folder, '.mim', 'configs', path), import_custom_modules=False)


def skip_without(package: str) -> None:
    """Skip the test of a config whose backbone is of a package that is not installed."""
    try:
        require(package)
    except UserError as error:
        pytest.skip(str(error))


def build(config: Config) -> nn.Module:
    """The model of a config, without released weights."""
    if uses_mmpretrain(config.model):
        skip_without('mmpretrain')
    init_default_scope(config.default_scope)
    model = config.model.copy()
    model.backbone = {**model.backbone, 'init_cfg': None}
    if 'size' in model.data_preprocessor:  # images are padded to it: small ones would become large
        model.data_preprocessor = {**model.data_preprocessor, 'size': (128, 128)}
    with_scope = model.type if '.' in model.type else f'{config.default_scope}.{model.type}'
    return MODELS.build(dict(model, type=with_scope))


def build_as_trained(config: Config) -> nn.Module:
    """The model after init_weights, which some modules need."""
    model = build(config)
    MMLogger.get_current_instance().setLevel(logging.WARNING)  # it logs every parameter
    model.init_weights()
    return model


def build_empty(name: str) -> nn.Module:
    """The model of a config on the meta device: shapes without values."""
    with torch.device('meta'):
        return build(load(name))


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def num_classes(model: nn.Module) -> int:
    head = getattr(model, 'decode_head', None) or getattr(model, 'roi_head', model).bbox_head
    return head.num_classes


def random_batch(num_classes: int, size: int | tuple[int, int] = 128, number: int = 1) -> dict:
    """Images with two instances each, in the format of mmdet's data loaders."""
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks

    rng = np.random.default_rng(0)
    size = (size, size) if isinstance(size, int) else size
    boxes = np.array([[10, 10, 60, 70], [50, 40, 120, 110]], np.float32)
    masks = np.zeros((2, *size), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.astype(int), strict=True):
        mask[y1:y2, x1:x2] = 1
    sample = DetDataSample(
        metainfo=dict(
            img_shape=size, ori_shape=size, scale_factor=(1.0, 1.0),
            batch_input_shape=size, pad_shape=size, img_id=0,
        )
    )  # fmt: skip
    sample.gt_instances = InstanceData(
        bboxes=torch.tensor(boxes),
        labels=torch.tensor([0, num_classes - 1]),
        masks=BitmapMasks(masks, *size),
    )
    images = [random_image(rng, size) for _ in range(number)]
    return dict(inputs=images, data_samples=[deepcopy(sample) for _ in images])


def random_image(rng: np.random.Generator, size: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(rng.integers(0, 256, (3, *size)), dtype=torch.uint8)


def random_label_maps(
    num_classes: int, size: int | tuple[int, int] = 128, number: int = 1, ignored: int = 0
) -> dict:
    """Images with label maps, in the format of mmseg's data loaders; some rows are ignored."""
    from mmseg.structures import SegDataSample

    rng = np.random.default_rng(0)
    size = (size, size) if isinstance(size, int) else size
    inputs, samples = [], []
    for _ in range(number):
        inputs.append(random_image(rng, size))
        sample = SegDataSample(metainfo=dict(img_shape=size, ori_shape=size))
        labels = torch.tensor(rng.integers(0, num_classes, (1, *size)))
        labels[:, :ignored] = 255
        sample.gt_sem_seg = PixelData(data=labels)
        samples.append(sample)
    return dict(inputs=inputs, data_samples=samples)


def batch_of(model: nn.Module, config: Config, size: int | tuple[int, int] = 128) -> dict:
    """Two images where a head has maps of one pixel, which have no variance in one image."""
    make = random_batch if config.default_scope == 'mmdet' else random_label_maps
    batch = make(num_classes(model), size, number=1 if hasattr(model, 'roi_head') else 2)
    if config.default_scope == 'mmdet' and not model.with_mask:
        for sample in batch['data_samples']:
            del sample.gt_instances.masks  # as in data without masks
    return batch


def train_step(model: nn.Module, batch: dict) -> torch.Tensor:
    """The loss, after which one step of gradient descent is done."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    model.train()
    data = model.data_preprocessor(batch, training=True)
    loss, _ = model.parse_losses(model(**data, mode='loss'))
    loss.backward()
    optimizer.step()
    return loss.detach()
