"""PSPNet, DeepLabv3 and Semantic FPN: heads, losses, norms, rates, data and a run."""

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope

from mmeffvit.models.checkpoints.read import read_content
from tests.configs.models import (
    build,
    load,
    random_label_maps,
    train_step,
)
from tests.conftest import ROOT

pytest.importorskip('mmseg')


def predict(model: torch.nn.Module, batch: dict) -> list:
    model.eval()
    with torch.no_grad():
        return model.test_step(batch)


@pytest.mark.parametrize(
    'name', ['pspnet_mobilevitv2_050_ade20k', 'deeplabv3_mobilevitv2_050_voc12']
)
def test_any_size_trains_and_predicts_at_its_own_size(name):
    model = build(load(name))
    num_classes = model.decode_head.num_classes
    for size in ((41, 67), (56, 72)):  # odd, and not multiples of 64
        assert train_step(model, random_label_maps(num_classes, size, 2, ignored=8)).isfinite()
        (found,) = predict(model, random_label_maps(num_classes, size, ignored=8))
        assert found.pred_sem_seg.data.shape == (1, *size)


@pytest.mark.parametrize('name', ['pspnet_mobilevitv2_050_ade20k', 'semfpn_swiftformer_l1_ade20k'])
def test_the_loss_is_the_mean_over_labeled_pixels_for_mobilevitv2_only(name):
    model = build(load(name))
    batch = random_label_maps(150, 64, 2, ignored=8)
    labels = torch.stack([sample.gt_sem_seg.data[0] for sample in batch['data_samples']])
    logits = torch.randn(2, 150, 64, 64)
    losses = model.decode_head.loss_by_feat(logits, batch['data_samples'])
    mean = torch.nn.functional.cross_entropy(logits, labels, ignore_index=255)
    if name.startswith('semfpn'):
        mean = mean * (labels != 255).float().mean()  # over all pixels
    torch.testing.assert_close(losses['loss_ce'], mean)


@pytest.mark.parametrize('name', ['pspnet_mobilevitv2_050_ade20k', 'pspnet_mobilevitv2_050_voc12'])
def test_only_parameters_with_one_dimension_have_no_weight_decay(name):
    from mmengine.optim import build_optim_wrapper

    config = load(name)
    model = build(config)
    wrapper = build_optim_wrapper(model, config.optim_wrapper)
    decay = config.optim_wrapper.optimizer.weight_decay
    for group in wrapper.optimizer.param_groups:
        (parameter,) = group['params']
        assert group['weight_decay'] == (0.0 if parameter.ndim == 1 else decay)
        assert group['lr'] == config.optim_wrapper.optimizer.lr


def test_the_rate_on_voc_rises_for_500_iterations_and_follows_the_cosine():
    from mmengine.registry import PARAM_SCHEDULERS

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=5e-4)
    schedulers = [
        PARAM_SCHEDULERS.build(dict(**scheduler, optimizer=optimizer))
        for scheduler in load('pspnet_mobilevitv2_050_voc12').param_scheduler
    ]
    rates = []
    for _ in range(12_000):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert rates[0] == pytest.approx(5e-5)
    for iteration in (600, 5_000, 11_999):
        cosine = (1 + np.cos(np.pi * iteration / 50_000)) / 2
        assert rates[iteration] == pytest.approx(1e-6 + (5e-4 - 1e-6) * cosine, rel=0.01)


@pytest.mark.parametrize('name', ['pspnet_mobilevitv2_050_ade20k', 'semfpn_shvit_s4_ade20k'])
def test_the_pipelines_read_ade20k(name, ade_shapes, monkeypatch):
    from mmseg.registry import DATASETS

    monkeypatch.setenv('DATA_ROOT', str(ade_shapes))
    config = load(name)
    init_default_scope('mmseg')
    train = DATASETS.build(config.train_dataloader.dataset)
    assert len(train) == 2
    divisor = 8 if name.startswith('pspnet') else 32
    for index in range(len(train)):
        sample = train[index]
        labels = sample['data_samples'].gt_sem_seg.data
        assert sample['inputs'].dtype == torch.uint8
        assert labels.shape[1:] == sample['inputs'].shape[1:]
        if name.startswith('pspnet'):
            assert sample['inputs'].shape == (3, 512, 512)
            assert labels[0, 0, 0] == 255 or labels[0, 0, -1] == 255  # a corner is rotated out
        assert max(sample['inputs'].shape[1:]) <= 512
        found = set(labels.unique().tolist())
        assert found <= {*range(150), 255}
        assert len(found) > 2
    tested = DATASETS.build(config.val_dataloader.dataset)[0]
    height, width = tested['inputs'].shape[1:]
    assert (height % divisor, width % divisor) == (0, 0)
    assert min(height, width) == 512
    # the labels have the size of the file for any input size
    assert tested['data_samples'].gt_sem_seg.data.shape[1:] == tested['data_samples'].ori_shape


@pytest.mark.slow
def test_a_run_on_ade20k_trains_averages_and_evaluates(ade_shapes, tmp_path):
    from mmeffvit.train.engine.options import RunOptions
    from mmeffvit.train.engine.train import train

    load_image, pack = dict(type='LoadImageFromFile'), dict(type='PackSegInputs')
    load_labels = dict(type='LoadAnnotations', reduce_zero_label=True)
    resize = dict(type='Resize', scale=(128, 64))
    loader = dict(num_workers=0, persistent_workers=False)
    options = {
        'data_root': str(ade_shapes),
        'train_cfg.max_iters': 2,
        'train_cfg.val_interval': 2,
        'model.backbone.init_cfg': None,
        'train_dataloader.batch_size': 2,
        'train_dataloader.dataset.pipeline': [load_image, load_labels, resize, pack],
        'val_dataloader.dataset.pipeline': [load_image, resize, load_labels, pack],
        **{f'{s}_dataloader.{k}': v for s in ('train', 'val') for k, v in loader.items()},
    }
    runner = train(
        str(ROOT / 'configs' / 'pspnet_mobilevitv2_050_ade20k.py'),
        RunOptions(work_dir=str(tmp_path), cfg_options=options, seed=0),
    )
    assert runner.iter == 2
    assert 0 <= runner.message_hub.get_scalar('val/mIoU').current() <= 100
    assert 'ema_state_dict' in read_content(tmp_path / 'iter_2.pth')
