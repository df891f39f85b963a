"""Mistakes in configs and data end in one line, whatever library meets them."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from PIL import Image

from mmeffvit.data.shapes import ShapesSpec, generate
from tests.conftest import ROOT, run_command_here
from tests.utils.odd_images import EPS, fake_ghostscript, jpeg_of

SHAPES = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
TRAIN = 'annotations/instances_train2017.json'
VAL = 'annotations/instances_val2017.json'
SHORT = ('train_cfg.max_epochs=1', 'train_cfg.val_interval=1', 'train_dataloader.batch_size=4')


@pytest.fixture(scope='module')
def few(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('few') / 'shapes'
    generate(folder, ShapesSpec(num_train=4, num_val=2, side=64, max_objects=3))
    return folder


@pytest.fixture
def copy(few, tmp_path) -> Path:
    return Path(shutil.copytree(few, tmp_path / 'shapes'))


def train(
    data: Path, work_dir: Path, *options: str, config: Path = SHAPES
) -> CompletedProcess[str]:
    return run_command_here(
        'train', config, '--work-dir', work_dir, '--cfg-options', f'data_root={data}/', *SHORT,
        *options,
    )  # fmt: skip


def assert_one_line(done: CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done.stdout
    assert 'Traceback' not in done.stdout, done.stdout
    (line,) = [
        line for line in done.stdout.splitlines() if re.match(r'(mmeffvit train: )?error: ', line)
    ]
    for part in parts:
        assert part in line, line


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


OPTIONS = {
    'optim_wrapper.optimizer.lr=-1': ('optim_wrapper.optimizer.lr is -1', 'at least 0'),
    'train_dataloader.batch_size=0': ('train_dataloader.batch_size is 0', 'at least 1'),
    'model=5': ('model is 5', 'must be a dict'),
    'model.backbone=5': ('model.backbone is 5', 'must be a dict'),
    'model.data_preprocessor.std=0': ('model.data_preprocessor.std is 0', 'positive numbers'),
    'model.data_preprocessor.std=[1,0,1]': ('std is [1, 0, 1]', 'positive numbers'),
    'train_cfg.max_epochs=0': ('train_cfg.max_epochs is 0', 'at least 1'),
    'train_dataloader.dataset.pipeline=5': ('pipeline is 5', 'a list'),
    'train_dataloader=None': ('no train_dataloader',),
    'a': ("KEY=VALUE, not 'a'",),
    '=3': ("KEY=VALUE, not '=3'",),
    'x=[(1,2]': ('Imbalanced brackets',),
    'train_dataloader.dataset.type=CoccoDataset': ('CoccoDataset', 'CocoDataset'),
    'train_dataloader.dataset.pipeline.2.type=RandmFlip': ("'RandmFlip'", 'RandomFlip'),
    'optim_wrapper.optimizer.type=AdamV': ("'AdamV'", 'did you mean', 'AdamW'),
    'val_evaluator.metric=miou': ('metric should be one of', 'miou'),
    'train_dataloader.num_workers=-2': ('num_workers is -2',),
    'model.neck.nothing=3': ('nothing',),
}


@pytest.mark.parametrize(('option', 'parts'), OPTIONS.items(), ids=OPTIONS)
def test_a_value_that_cannot_work_is_named(option, parts, few, tmp_path):
    assert_one_line(train(few, tmp_path, option, '--no-check'), *parts)


def break_image(folder: Path) -> None:
    (folder / 'train2017/000001.png').write_bytes(b'no image')


def empty_image(folder: Path) -> None:
    (folder / 'train2017/000001.png').write_bytes(b'')


def pipe(folder: Path) -> None:
    path = folder / 'train2017/000001.png'
    path.unlink()
    os.mkfifo(path)


DATA = {
    'cut': (lambda f: (f / TRAIN).write_text('{"images": ['), (TRAIN, 'not valid JSON')),
    'no images': (lambda f: edit(f / TRAIN, lambda c: c.pop('images')), (TRAIN, 'list of images')),
    'no name': (
        lambda f: edit(f / TRAIN, lambda c: c['images'][0].pop('file_name')),
        (TRAIN, 'file_name None in images, id 0'),
    ),
    'far away': (
        lambda f: edit(
            f / TRAIN, lambda c: c['annotations'][0].update(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])
        ),
        (TRAIN, 'annotation 1'),
    ),
    'far away in the validation': (
        lambda f: edit(
            f / VAL, lambda c: c['annotations'][0].update(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])
        ),
        (VAL, 'annotation 1'),
    ),
    'pipe': (pipe, ('000001.png', 'pipes')),
    'broken image': (break_image, ('000001.png', 'failed to load image')),
    'empty image': (empty_image, ('000001.png', 'cannot be read')),
}


@pytest.mark.parametrize(('damage', 'parts'), DATA.values(), ids=DATA)
def test_data_that_cannot_be_used_are_named(damage, parts, copy, tmp_path):
    damage(copy)
    assert_one_line(train(copy, tmp_path / 'run', '--no-check'), *parts)


@pytest.mark.slow
def test_an_image_that_a_data_loading_process_cannot_read_is_named(copy, tmp_path):
    empty_image(copy)
    done = train(copy, tmp_path / 'run', 'train_dataloader.num_workers=1', '--no-check')
    assert_one_line(done, '000001.png', 'cannot be read')


@pytest.mark.slow
def test_annotations_without_info_and_crowds_train_validate_and_test(copy, tmp_path):
    def strip(content: dict) -> None:
        del content['info']
        for annotation in content['annotations']:
            del annotation['iscrowd']

    for name in (TRAIN, VAL):
        edit(copy / name, strip)
    # the metric copies `info` when there are detections
    low = 'model.test_cfg.rcnn.score_thr=0.0'
    done = train(copy, tmp_path / 'run', low)
    assert done.returncode == 0, done.stdout
    assert 'mask AP' in done.stdout
    done = run_command_here(
        'test', SHAPES, tmp_path / 'run/epoch_1.pth', '--work-dir', tmp_path / 'test',
        '--cfg-options', f'data_root={copy}/', low,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert 'mask AP' in done.stdout


@pytest.mark.parametrize(
    ('content', 'words'),
    [(b'', 'cannot be read'), (EPS, 'it is PostScript (EPS), not JPEG, PNG')],
    ids=['empty', 'PostScript'],
)
def test_label_maps_that_cannot_be_read_are_named(
    content, words, ade_shapes, tmp_path, monkeypatch
):
    called = fake_ghostscript(tmp_path, monkeypatch)
    for source in filter(Path.is_file, ade_shapes.rglob('*')):
        target = tmp_path / 'ade' / source.relative_to(ade_shapes)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for path in (tmp_path / 'ade/annotations/training').glob('*.png'):
        path.write_bytes(content)
    done = run_command_here(
        'train', ROOT / 'configs/semfpn_swiftformer_l1_ade20k.py', '--no-check', '--work-dir',
        tmp_path / 'run', '--cfg-options', f'data_root={tmp_path}/ade/',
        'train_dataloader.num_workers=0',
        'train_dataloader.batch_size=2', 'model.backbone.init_cfg=None',
    )  # fmt: skip
    assert_one_line(done, 'annotations/training/ADE_train_0000000', '.png', words)
    assert not called.exists()


@pytest.mark.parametrize(
    ('content', 'words'),
    [
        (EPS, 'it is PostScript (EPS)'),
        (
            jpeg_of(20_000, 8_000),
            '(20,000 x 8,000 pixels) exceeds the limit of 134,217,728 pixels: shrink it',
        ),
    ],
    ids=['PostScript', 'large'],
)
def test_images_of_another_kind_and_large_ones_are_named(content, words, copy, tmp_path):
    (copy / 'train2017/000001.png').write_bytes(content)
    done = train(copy, tmp_path / 'run', '--no-check')
    assert_one_line(done, 'train2017/000001.png', words)


def test_a_picture_that_is_no_rgb_is_no_mistake(copy, tmp_path):
    path = copy / 'train2017/000001.png'
    Image.open(path).convert('L').save(path)
    assert train(copy, tmp_path / 'run', '--no-check').returncode == 0


KILLED = """
import os
import signal

from mmengine.registry import TRANSFORMS
from torch.utils.data import get_worker_info


@TRANSFORMS.register_module()
class KilledInAWorker:
    def __call__(self, results):
        if get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is short
        return results
"""
LOADS = """
_base_ = [{shapes!r}]
custom_imports = dict(imports=['killed_in_a_worker'])
train_dataloader = dict(
    num_workers=1,
    persistent_workers=True,
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
        dict(type='mmengine.KilledInAWorker'),
        dict(type='PackDetInputs'),
    ]),
)
"""


def test_a_data_loading_process_that_is_killed_ends_the_run_in_one_line(few, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'killed_in_a_worker.py').write_text(KILLED)
    (tmp_path / 'config.py').write_text(LOADS.format(shapes=str(SHAPES)))
    done = train(few, tmp_path / 'work', '--no-check', config=tmp_path / 'config.py')
    assert_one_line(done, 'a data loading process has ended', 'num_workers')
