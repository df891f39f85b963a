"""PSPNet, Semantic FPN and SegFormer: losses, rates and data."""

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from torch import nn

from tests.configs.models import CONFIGS, build, load, random_label_maps

pytest.importorskip('mmseg')
SEGFORMER = [name for name in CONFIGS if name.startswith('segformer')]


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


@pytest.mark.parametrize('name', ['pspnet_mobilevitv2_050_ade20k', *SEGFORMER])
def test_decay_and_rate_of_every_parameter(name):
    """Decay of weights; in SegFormer not of the backbone's norms, and ten times its rate."""
    config = load(name)
    model = build(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    groups = {id(p): group for group in optimizer.param_groups for p in group['params']}
    normal = config.optim_wrapper.optimizer
    for module_name, module in model.named_modules():
        is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm | nn.GroupNorm)
        is_new = name in SEGFORMER and module_name.startswith(('decode_head', 'neck'))
        for parameter in module.parameters(recurse=False):
            decays = is_new or not is_norm if name in SEGFORMER else parameter.ndim > 1
            group = groups[id(parameter)]
            assert group['weight_decay'] == normal.weight_decay * decays
            assert group['lr'] == pytest.approx(normal.lr * (10 if is_new else 1))


def test_the_pipelines_read_ade20k(ade_shapes, monkeypatch):
    from mmseg.registry import DATASETS

    monkeypatch.setenv('DATA_ROOT', str(ade_shapes))
    config = load('pspnet_mobilevitv2_050_ade20k')
    init_default_scope('mmseg')
    train = DATASETS.build(config.train_dataloader.dataset)
    assert len(train) == 2
    for index in range(len(train)):
        sample = train[index]
        labels = sample['data_samples'].gt_sem_seg.data
        assert sample['inputs'].dtype == torch.uint8
        assert sample['inputs'].shape == (3, 512, 512)
        assert labels.shape == (1, 512, 512)
        assert labels[0, 0, 0] == 255 or labels[0, 0, -1] == 255  # a corner is rotated out
        found = set(labels.unique().tolist())
        assert found <= {*range(150), 255}
        assert len(found) > 2
    tested = DATASETS.build(config.val_dataloader.dataset)[0]
    height, width = tested['inputs'].shape[1:]
    assert (height % 8, width % 8, min(height, width)) == (0, 0, 512)
    # the labels have the size of the file for any input size
    assert tested['data_samples'].gt_sem_seg.data.shape[1:] == tested['data_samples'].ori_shape
