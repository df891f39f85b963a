"""Tiny classifiers, and images in folders as ImageNet has them."""

from pathlib import Path

import numpy as np
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, init_default_scope
from PIL import Image
from torch import nn

from tests.conftest import require_or_skip

require_or_skip('mmpretrain')

from mmpretrain.structures import DataSample  # noqa: E402

import mmeffvit.models.classification  # noqa: E402, F401
from mmeffvit.config.load import load_config  # noqa: E402

SWIFTFORMER = dict(channels=(8, 8, 8, 16), depths=(1, 1, 1, 1))
SHVIT = dict(channels=(16, 16, 16), depths=(1, 1, 1), attended=(0, 8, 8))
CLASSES = ('dark', 'bright', 'striped')


def build(settings: dict) -> nn.Module:
    init_default_scope('mmpretrain')
    return MODELS.build(ConfigDict(settings))


def labeled(*labels: int) -> list[DataSample]:
    return [DataSample().set_gt_label(label) for label in labels]


def tiny_student(**options: object) -> dict:
    return dict(
        type='mmeffvit.DistilledClassifier',
        backbone=dict(type='mmeffvit.SwiftFormer', arch=SWIFTFORMER, out_indices=(3,),
                      output_norm=False),
        head=dict(type='mmeffvit.ClassifierHead', num_classes=3, in_channels=16, norm='map',
                  distilled=True, **options),
        teacher=tiny_teacher(),
    )  # fmt: skip


def tiny_teacher() -> dict:
    return dict(
        type='ImageClassifier',
        backbone=dict(type='mmeffvit.SHViT', arch=SHVIT, out_indices=(2,)),
        head=dict(type='mmeffvit.ClassifierHead', num_classes=3, in_channels=16, norm='pooled'),
    )


def write_config(path: Path, name: str, root: Path, backbone: dict, **model: object) -> Path:
    """A config of ours with a tiny backbone, for images of 64 pixels of the classes in a folder."""
    config = load_config(name, {'data_root': str(root)})
    for key, value in dict(backbone=backbone, **model).items():
        config.model[key] = value
    config.model.data_preprocessor.num_classes = len(CLASSES)
    config.model.head.update(num_classes=len(CLASSES), in_channels=16)
    for mode in ('train', 'val', 'test'):
        loader = config[f'{mode}_dataloader']
        loader.update(batch_size=4, num_workers=0, persistent_workers=False)
        loader.dataset.metainfo = dict(classes=CLASSES)
        for step in loader.dataset.pipeline:
            step.update({key: 64 for key in ('scale', 'crop_size') if key in step})
    config.val_evaluator.topk = config.test_evaluator.topk = 1
    config.dump(path)
    return path


def write_images(folder: Path, names: tuple[str, ...], number: int = 4) -> None:
    """A folder per class, with pictures that a classifier of three weights tells apart."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for index in range(number):
            picture = rng.integers(0, 40, (70, 90, 3)) + (170 if label == 1 else 0)
            picture[:: 2 if label == 2 else 100] = 200
            Image.fromarray(picture.astype(np.uint8)).save(folder / name / f'{index}.png')
