"""Two processes on one machine train as one does at the same total batch: a segmentor of mmseg."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmeffvit.data.shapes import ShapesSpec, generate_ade20k
from mmeffvit.models.checkpoints.read import read_content
from tests.conftest import ROOT, output_of, rejected, run_python, succeeded

# batch norm in eval mode and no random augmentation: then the only difference left between one
# process and two is the order in which gradients are summed
CONFIG = """
_base_ = [{base!r}]
custom_imports = dict(imports=['tests.train.engine.stand_ins'])
custom_hooks = [dict(type='mmengine.LossWriterHook')]
model = dict(
    data_preprocessor=dict(size=(64, 64)),
    backbone=dict(
        arch=dict(_delete_=True, channels=(16, 16, 32, 32), depths=(1, 1, 1, 1)),
        init_cfg=None,
        norm_eval=True,
    ),
    neck=dict(in_channels=[16, 16, 32, 32], out_channels=16),
    decode_head=dict(
        in_channels=[16] * 4, channels=16, dropout_ratio=0.0, norm_cfg=dict(type='GN', num_groups=4)
    ),
)
labels = dict(type='LoadAnnotations', reduce_zero_label=True)
pipeline = [dict(type='LoadImageFromFile'), labels, dict(type='PackSegInputs')]
dataset = dict(data_root={data!r}, pipeline=pipeline)
train_dataloader = dict(num_workers=1, dataset=dataset)
val_dataloader = dict(num_workers=0, persistent_workers=False, dataset=dataset)
test_dataloader = val_dataloader
train_cfg = dict(max_iters=6, val_interval=100)
optim_wrapper = dict(optimizer=dict(_delete_=True, type='SGD', lr=0.05, momentum=0.9))
param_scheduler = []
default_hooks = dict(logger=dict(interval=1), checkpoint=dict(interval=6))
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('segmentation')
    generate_ade20k(folder / 'ade', ShapesSpec(num_train=12, num_val=2, side=64))
    base = str(ROOT / 'configs' / 'semfpn_swiftformer_l1_ade20k.py')
    path = folder / 'config.py'
    path.write_text(CONFIG.format(base=base, data=str(folder / 'ade')))
    return path


@pytest.fixture(scope='module')
def one_process(config, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('one')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('LOSS_DIR', str(folder))
        output_of('train', config, '--work-dir', folder, '--seed', 0)
    return folder


def losses(folder: Path) -> np.ndarray:
    """The loss over all processes, per iteration."""
    return np.mean([np.loadtxt(path) for path in sorted(folder.glob('rank*.txt'))], axis=0)


@pytest.mark.slow
def test_two_processes_give_the_loss_of_one_at_the_same_total_batch(config, one_process, tmp_path):
    printed = succeeded(run_python(
        '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2',
        ROOT / 'tools' / 'train.py', config, '--work-dir', tmp_path, '--seed', '0',
        '--launcher', 'pytorch',
        '--cfg-options', 'train_dataloader.batch_size=2', 'train_cfg.val_interval=6',
        cwd=tmp_path, timeout=120,
        env={'LOSS_DIR': str(tmp_path), 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
    ))  # fmt: skip
    assert 'mIoU' in printed
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
@pytest.mark.variant
def test_an_error_in_one_process_ends_all(config, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    message = rejected(
        'train', config, '--work-dir', tmp_path, '--nproc-per-node', 2, '--no-check',
        '--cfg-options', 'model.backbone.type=mmengine.FailsInOneProcess',
        'train_dataloader.batch_size=2', 'train_cfg.max_iters=1200',
    )  # fmt: skip
    assert message == 'training failed; see its output above'
    assert 'RuntimeError: fails in one process' in capfd.readouterr().err
