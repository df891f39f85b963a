"""Two processes on one machine train as one does at the same total batch: a segmentor of mmseg."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import cv2
import numpy as np
import pytest
import torch

from mmeffvit.models.checkpoints.read import read_content
from tests.conftest import ROOT, run_command_here, run_python

# batch norm in eval mode and no random augmentation: then the only difference left between one
# process and two is the order in which gradients are summed
CONFIG = """
default_scope = 'mmseg'
custom_imports = dict(imports=['loss_writer', 'failing_rank'])
custom_hooks = [dict(type='mmengine.LossWriterHook')]
data_root = {data!r}
model = dict(
    type='EncoderDecoder',
    data_preprocessor=dict(
        type='SegDataPreProcessor', size=(64, 64), mean=[128.0] * 3, std=[64.0] * 3, seg_pad_val=255
    ),
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch=dict(channels=(16, 16, 32, 32), depths=(1, 1, 1, 1)),
        norm_eval=True,
    ),
    neck=dict(type='FPN', in_channels=[16, 16, 32, 32], out_channels=16, num_outs=4),
    decode_head=dict(
        type='FPNHead', in_channels=[16] * 4, in_index=[0, 1, 2, 3],
        feature_strides=[4, 8, 16, 32], channels=16, dropout_ratio=0.0, num_classes=3,
        norm_cfg=dict(type='GN', num_groups=4), align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss'),
    ),
    test_cfg=dict(mode='whole'),
)
train_dataloader = dict(
    batch_size=4,
    num_workers=1,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type='BaseSegDataset', data_root=data_root,
        data_prefix=dict(img_path='images', seg_map_path='labels'),
        metainfo=dict(classes=('ground', 'square', 'disc')), img_suffix='.png',
        pipeline=[
            dict(type='LoadImageFromFile'), dict(type='LoadAnnotations'),
            dict(type='PackSegInputs'),
        ],
    ),
)
test_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(test_mode=True, **train_dataloader['dataset']),
)
test_evaluator = dict(type='IoUMetric', iou_metrics=['mIoU'])
test_cfg = dict(type='TestLoop')
val_dataloader, val_evaluator = test_dataloader, test_evaluator
val_cfg = dict(type='ValLoop')
train_cfg = dict(type='IterBasedTrainLoop', max_iters=6, val_interval=100)
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.05, momentum=0.9))
default_hooks = dict(
    logger=dict(type='LoggerHook', interval=1),
    checkpoint=dict(type='CheckpointHook', by_epoch=False, interval=6),
)
log_processor = dict(by_epoch=False)
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('segmentation')
    rng = np.random.default_rng(0)
    for name in ('images', 'labels'):
        (folder / name).mkdir()
    for number in range(12):
        label = np.zeros((64, 64), np.uint8)
        x, y = rng.integers(4, 36, 2).tolist()
        cv2.rectangle(label, (x, y), (x + 20, y + 20), 1, cv2.FILLED)
        cv2.circle(label, rng.integers(10, 54, 2).tolist(), 9, 2, cv2.FILLED)
        image = rng.integers(0, 60, (64, 64, 3)) + 80 * label[..., None]
        cv2.imwrite(str(folder / 'labels' / f'{number}.png'), label)
        cv2.imwrite(str(folder / 'images' / f'{number}.png'), image.astype(np.uint8))
    path = folder / 'config.py'
    path.write_text(CONFIG.format(data=str(folder)))
    return path


def environment(folder: Path) -> dict[str, str]:
    return {'LOSS_DIR': str(folder), 'PYTHONPATH': f'{Path(__file__).parent}:{ROOT}'}


@contextmanager
def hook_writes_to(folder: Path) -> Iterator[None]:
    """What ``environment`` is to another process, in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('LOSS_DIR', str(folder))
        patch.syspath_prepend(Path(__file__).parent)
        yield


@pytest.fixture(scope='module')
def one_process(config, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('one')
    with hook_writes_to(folder):
        run = run_command_here('train', config, '--work-dir', folder, '--seed', 0)
    assert run.returncode == 0, run.stdout
    return folder


def losses(folder: Path) -> np.ndarray:
    """The loss over all processes, per iteration."""
    return np.mean([np.loadtxt(path) for path in sorted(folder.glob('rank*.txt'))], axis=0)


def run_in_two_processes(config: Path, folder: Path, *options: str) -> CompletedProcess[str]:
    return run_python(
        '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2',
        ROOT / 'tools' / 'train.py', config, '--work-dir', folder, '--seed', '0',
        '--launcher', 'pytorch', '--cfg-options', 'train_dataloader.batch_size=2', *options,
        cwd=folder, env={**environment(folder), 'OMP_NUM_THREADS': '1'}, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_give_the_loss_of_one_at_the_same_total_batch(config, one_process, tmp_path):
    run = run_in_two_processes(config, tmp_path, 'train_cfg.val_interval=6')
    assert run.returncode == 0, run.stdout
    assert 'mIoU' in run.stdout
    assert not list(tmp_path.glob('.dist_test'))  # of mmengine, in the current folder
    one, two = losses(one_process), losses(tmp_path)
    assert len(list(tmp_path.glob('rank*.txt'))) == 2
    assert len(one) == len(two) == 6
    assert one[-1] < one[0]
    # float32, six steps of gradients summed in another order
    np.testing.assert_allclose(two, one, rtol=1e-4)
    weights = [read_content(f / 'iter_6.pth')['state_dict'] for f in (one_process, tmp_path)]
    for key, value in weights[0].items():
        torch.testing.assert_close(weights[1][key], value, rtol=1e-3, atol=1e-5, msg=key)


@pytest.mark.slow
def test_an_error_in_one_process_ends_all(config, tmp_path):
    run = run_in_two_processes(
        config, tmp_path, 'model.backbone.type=mmengine.FailsInOneProcess',
        'train_cfg.max_iters=1200', '--no-check',
    )  # fmt: skip
    assert run.returncode, run.stdout
    assert 'RuntimeError: fails in one process' in run.stdout


@pytest.mark.slow
def test_a_segmentor_is_evaluated_and_drawn(config, one_process, tmp_path):
    with hook_writes_to(tmp_path):
        run = run_command_here(
            'test', config, one_process / 'iter_6.pth', '--work-dir', tmp_path,
            '--out', tmp_path / 'found.pkl', '--show-dir', tmp_path / 'pictures',
        )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert 'mIoU' in run.stdout
    assert len(list((tmp_path / 'pictures').rglob('*.png'))) == 12
    assert len(pickle.loads((tmp_path / 'found.pkl').read_bytes())) == 12
