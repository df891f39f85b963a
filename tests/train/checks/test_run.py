"""Annotation files that pass the check before a run can be read, loaded and drawn by mmdet."""

import contextlib
import io
import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmengine.config import Config
from mmengine.registry import DATASETS
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from mmeffvit.config.build import isolated
from mmeffvit.data import faults
from mmeffvit.data.files import Sample
from mmeffvit.data.formats.coco_file import run_lengths
from mmeffvit.errors import UserError
from mmeffvit.train.checks.data import MISREAD, check_data, check_dataset
from mmeffvit.utils.optional import require
from tests.hostile.damage import mutate_json

SIDE = 32
SQUARE = [4, 4, 20, 4, 20, 20, 4, 20]
CODE = coco_mask.encode(np.asfortranarray(np.eye(SIDE, dtype=np.uint8)))['counts'].decode()
CONTENT = dict(
    images=[dict(id=i, file_name=f'{i}.png', height=SIDE, width=SIDE) for i in (1, 2)],
    annotations=[
        dict(id=1, image_id=1, category_id=1, bbox=[4, 4, 16, 16], area=256, iscrowd=0,
             segmentation=[SQUARE]),
        dict(id=2, image_id=2, category_id=2, bbox=[0, 0, SIDE, SIDE], area=SIDE, iscrowd=0,
             segmentation=dict(size=[SIDE, SIDE], counts=CODE)),
        dict(id=3, image_id=2, category_id=1, bbox=[0, 0, 9, 9], area=81, iscrowd=1,
             segmentation=dict(size=[SIDE, SIDE], counts=[0, 81, SIDE * SIDE - 81])),
    ],
    categories=[dict(id=1, name='cat'), dict(id=2, name='dog')],
)  # fmt: skip


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    require('mmdet')
    folder = tmp_path_factory.mktemp('coco')
    for image in CONTENT['images']:
        Image.new('RGB', (SIDE, SIDE)).save(folder / image['file_name'])
    return folder


def config_of(folder: Path, content: Any) -> Config:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / 'train.json').write_bytes(text)
    dataset = dict(
        type='CocoDataset',
        data_root=str(folder),
        ann_file='train.json',
        data_prefix=dict(img=''),
        metainfo=dict(classes=('cat', 'dog')),
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
            dict(type='PackDetInputs'),
        ],
    )
    return Config(
        dict(
            default_scope='mmdet',
            train_dataloader=dict(dataset=dataset),
            train_evaluator=dict(type='CocoMetric', metric=['bbox', 'segm']),
        )
    )


def use(config: Config) -> int:
    """Read and draw everything as in training and in the metric; returns the number of images."""
    with isolated('mmdet'), contextlib.redirect_stdout(io.StringIO()):
        dataset = DATASETS.build(config.train_dataloader.dataset)
        if len(dataset.cat_ids) < 2:  # another fault has removed one of them
            return len(dataset)
        truth = COCO(dataset.ann_file)
    for i in range(len(dataset)):
        assert dataset[i]['inputs'].shape == (3, SIDE, SIDE)
    for annotation in truth.anns.values():
        if annotation['image_id'] in truth.imgs:
            truth.annToMask(annotation)
    return len(dataset)


@pytest.mark.parametrize('seed', range(100))
def test_any_file_is_rejected_with_a_message_or_can_be_used(seed, folder):
    content = deepcopy(CONTENT)
    mutate_json(content, random.Random(seed))
    config = config_of(folder, content)
    (data,) = check_dataset(config, ('train',), Sample(None))
    data.findings.describe().encode()
    rejected = ''
    try:
        check_data(config, ('train',))
    except UserError as error:
        rejected = str(error)
    assert '\n' not in rejected
    if rejected:
        assert data.findings.faults or faults.FILLED in data.findings.counts, rejected
    elif not {faults.IMAGE_MISSING, *MISREAD} & {*data.findings.counts}:  # reported when read
        assert use(config) <= 2


def test_a_polygon_that_the_metric_cannot_measure_stops_a_run(folder):
    content = deepcopy(CONTENT)
    content['annotations'][2]['segmentation'] = [[1, 1]]
    with pytest.raises(UserError, match=r'train\.json.* annotation 3'):
        check_data(config_of(folder, content), ('train',))


def test_polygons_slightly_outside_their_image_are_used(folder):
    content = deepcopy(CONTENT)
    content['annotations'][0]['segmentation'] = [[-3, -3, SIDE + 5, -3, 9, SIDE + 9.5]]
    config = config_of(folder, content)
    check_data(config, ('train',))
    assert use(config) == 2


@given(st.integers(0, 2**32), st.floats(0, 1), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_run_lengths_are_those_of_pycocotools(seed, density, height, width):
    mask = np.random.default_rng(seed).random((height, width)) < density
    code = coco_mask.encode(np.asfortranarray(mask, np.uint8))['counts'].decode()
    runs = run_lengths(code)
    values = np.repeat(np.arange(len(runs)) % 2, runs).astype(bool)
    assert (mask == values.reshape(width, height).T).all()
