"""Mistakes in configs and data end in one line, whatever library meets them."""

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import ROOT, message_of, run_command_here
from tests.hostile.cases_data import PICTURE

SHAPES = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
SHORT = ('train_cfg.max_epochs=1', 'train_cfg.val_interval=1', 'train_dataloader.batch_size=4')


def train(
    data: Path, work_dir: Path, *options: str, config: Path = SHAPES
) -> CompletedProcess[str]:
    return run_command_here(
        'train', config, '--work-dir', work_dir, '--cfg-options', f'data_root={data}/', *SHORT,
        *options,
    )  # fmt: skip


# values, and the words of the refusal
OPTIONS: dict[str, str] = {
    'a': "not 'a'", '=3': "not '=3'", 'x=[(1,2]': '(1,2', 'model=5': 'model is 5',
    'model.backbone=None': 'NoneType', 'model.neck=5': "<class 'int'>",
    'model.backbone.type=Nothing': 'Nothing', 'model.backbone.nothing=3': "'nothing'",
    'model.backbone.drop_path_rate=2': 'drop_path_rate is 2',
    'model.data_preprocessor.std=[1,0,1]': 'std is [1, 0, 1]',
    'model.data_preprocessor.std=[1,1]': 'std', 'model.data_preprocessor.mean=a': "'str'",
    'model.data_preprocessor.pad_size_divisor=0': 'pad_size_divisor is 0',
    'model.test_cfg.rcnn.nms=5': 'nms is 5', 'optim_wrapper.optimizer.lr=-1': 'lr is -1',
    'optim_wrapper.optimizer.weight_decay=-5': '-5',
    'optim_wrapper.optimizer.type=AdamV': 'AdamV',
    'optim_wrapper.optimizer.betas=5': "'int' object", 'optim_wrapper=None': 'optim_wrapper',
    'optim_wrapper.clip_grad=a': 'clip_grad', 'train_dataloader.batch_size=0': 'batch_size is 0',
    'train_dataloader.num_workers=-2': 'num_workers is -2',
    'train_dataloader.dataset.type=CoccoDataset': 'CoccoDataset',
    'train_dataloader.dataset.pipeline=5': 'pipeline is 5',
    'train_dataloader.dataset.pipeline.2.type=RandmFlip': 'RandmFlip',
    'train_dataloader.dataset.pipeline.2.prob=7': 'prob',
    'train_dataloader.dataset.metainfo.classes=5': 'classes of a dataset are 5',
    'train_dataloader.dataset.metainfo.classes=[a,b]': 'without a category in the file',
    'train_dataloader.sampler.type=Nothing': 'Nothing', 'train_dataloader=None': 'no train_datal',
    'val_evaluator.metric=miou': 'miou', 'val_evaluator.ann_file=nothing': 'nothing',
    'val_dataloader=None': 'val_dataloader', 'train_cfg.max_epochs=0': 'max_epochs is 0',
    'train_cfg.max_epochs=a': "max_epochs is 'a'", 'train_cfg=None': 'train_cfg',
    'param_scheduler=5': 'param_scheduler', 'default_hooks.checkpoint.interval=a': "is 'a'",
    'custom_hooks=5': 'custom_hooks is 5', 'data_root=nothing': 'nothing/',
    'data_root=/dev/zero': '/dev/zero/', 'load_from=nothing': "'nothing' does not exist",
    'randomness.seed=a': "'<U1'", 'log_level=NOTHING': 'NOTHING', 'work_dir=5': 'work_dir',
    'runner_type=Nothing': 'Nothing', 'log_processor.window_size=a': "window_size is 'a'",
    'randomness=None model.type=Nothing': 'Nothing',
}  # fmt: skip
# what the check of data finds
IN_DATA: dict[str, str] = {
    'train_dataloader.dataset=5': 'dataset is 5',
    'train_dataloader.dataset.ann_file=5': 'ann_file is 5',
    'train_dataloader.dataset.ann_file=nothing': "nothing' does not exist",
    'train_dataloader.dataset.data_prefix.img=nothing': "nothing' does not exist",
    'train_dataloader.dataset.metainfo.classes=[a,b]': 'without a category in the file',
    'val_evaluator.ann_file=nothing': "annotation file 'nothing' of the evaluator",
    'data_root=nothing': "'nothing/", 'data_root=/dev/zero': "'/dev/zero/", 'data_root=': "'/",
}  # fmt: skip


@pytest.mark.parametrize('options', OPTIONS)
def test_a_value_that_cannot_work_is_named(options, shapes, tmp_path):
    assert OPTIONS[options] in message_of(train(shapes, tmp_path, *options.split(), '--no-check'))
    if options.startswith('model.'):
        checked = run_command_here('check', SHAPES, '--no-data', '--cfg-options', options)
        assert OPTIONS[options] in checked.stdout
        assert 'Traceback' not in checked.stdout


@pytest.mark.parametrize('option', IN_DATA)
def test_the_check_of_data_names_a_value_that_cannot_work(option, shapes):
    done = run_command_here(
        'check', SHAPES, '--no-model', '--cfg-options', f'data_root={shapes}/', option
    )
    assert done.returncode in (1, 2)
    assert IN_DATA[option] in done.stdout
    assert 'Traceback' not in done.stdout


@pytest.mark.slow
def test_an_image_that_a_data_loading_process_cannot_read_is_named(shapes, tmp_path):
    copy = Path(shutil.copytree(shapes, tmp_path / 'shapes'))
    (tmp_path / PICTURE).write_bytes(b'')
    done = train(copy, tmp_path / 'run', 'train_dataloader.num_workers=1', '--no-check')
    assert f'{PICTURE} or its annotation cannot be read' in message_of(done)


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


def test_a_killed_data_loading_process_ends_the_run_in_one_line(shapes, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'killed_in_a_worker.py').write_text(KILLED)
    (tmp_path / 'config.py').write_text(LOADS.format(shapes=str(SHAPES)))
    done = train(shapes, tmp_path / 'work', '--no-check', config=tmp_path / 'config.py')
    message = message_of(done)
    assert 'a data loading process has ended' in message
    assert 'num_workers' in message
