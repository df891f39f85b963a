"""Mask R-CNN and RetinaNet with EfficientFormerV2, MobileViTv2 and SwiftFormer: sizes, recipes."""

import pytest
import torch
from mmengine.model.utils import convert_sync_batchnorm
from torch import nn

from tests.configs.leaves import build, build_empty, count, load, random_batch

# Mask R-CNN as counted from the reference modules; with the tables of position biases for 800
EFFICIENTFORMERV2 = {'s0': 23_278_144, 's1': 25_785_784, 's2': 32_227_264, 'l': 45_708_688}
DROP_PATH = {'s0': 0.0, 's1': 0.0, 's2': 0.02, 'l': 0.1}
CHANNELS = {
    's0': [32, 48, 96, 176],
    's1': [32, 48, 120, 224],
    's2': [32, 64, 144, 288],
    'l': [40, 80, 192, 384],
}
MASKRCNN = {
    **{f'maskrcnn_efficientformerv2_{arch}': arch for arch in CHANNELS},
    **{f'maskrcnn_efficientformerv2_mobiatt_{arch}': arch for arch in ('s2', 'l')},
}
RETINANET = ('swiftformer_l1', 'efficientformerv2_s2', 'mobilevitv2_100')


@pytest.mark.parametrize('arch', CHANNELS)
def test_efficientformerv2_has_the_parameters_of_the_reference(arch):
    model = build_empty(f'maskrcnn_efficientformerv2_{arch}')
    assert count(model) == EFFICIENTFORMERV2[arch]


@pytest.mark.parametrize('arch', ['s2', 'l'])
def test_mobile_attention_removes_parameters_and_changes_no_other_module(arch):
    plain = build_empty(f'maskrcnn_efficientformerv2_{arch}')
    mobile = build_empty(f'maskrcnn_efficientformerv2_mobiatt_{arch}')
    lost = set(plain.state_dict()) - set(mobile.state_dict())
    assert lost
    assert all(name.startswith('backbone.') and '.mixer.' in name for name in lost)
    assert set(mobile.state_dict()) < set(plain.state_dict())
    assert count(plain) - count(mobile) == sum(
        parameter.numel() for name, parameter in plain.named_parameters() if name in lost
    )


@pytest.mark.parametrize('leaf', MASKRCNN)
def test_the_recipe_of_efficientformerv2_is_that_of_its_authors(leaf):
    config, arch = load(leaf), MASKRCNN[leaf]
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 2e-4, 0.05)
    assert 'paramwise_cfg' not in config.optim_wrapper
    assert 'clip_grad' not in config.optim_wrapper
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 16
    warm_up, steps = config.param_scheduler
    assert (warm_up.start_factor, warm_up.end, warm_up.by_epoch) == (1e-6, 500, False)
    assert (steps.milestones, steps.gamma) == ([8, 11], 0.1)
    assert config.train_cfg.max_epochs == 12
    backbone = config.model.backbone
    assert (backbone.arch, backbone.resolution) == (arch, 800)
    assert backbone.get('drop_path_rate', 0.0) == DROP_PATH[arch]
    assert backbone.get('attention') == ('mobile' if 'mobiatt' in leaf else None)
    assert not backbone.get('norm_eval', False)
    assert backbone.init_cfg.checkpoint == f'hf://timm/efficientformerv2_{arch}.snap_dist_in1k'
    assert config.model.neck.in_channels == CHANNELS[arch]
    assert config.model.data_preprocessor.pad_size_divisor == 32
    resize = next(t for t in config.train_dataloader.dataset.pipeline if t.type == 'Resize')
    assert (resize.scale, resize.keep_ratio) == ((1333, 800), True)


@pytest.mark.parametrize(
    'leaf', [*MASKRCNN, 'retinanet_efficientformerv2_s2', 'retinanet_mobilevitv2_100']
)
def test_a_distributed_run_turns_every_batch_norm_into_a_trained_synchronised_one(leaf):
    config = load(leaf)
    # what the runner does with this key before it wraps the model
    model = convert_sync_batchnorm(build_empty(leaf), config.sync_bn).train()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    synchronised = [module for module in model.modules() if isinstance(module, nn.SyncBatchNorm)]
    assert norms == []
    assert synchronised
    assert all(norm.training and norm.weight.requires_grad for norm in synchronised)


@pytest.mark.parametrize('family', RETINANET)
def test_retinanet_has_strides_8_to_128_with_the_coarse_ones_from_the_backbone(family):
    config = load(f'retinanet_{family}')
    model = build(config).eval()
    assert model.backbone.strides == (8, 16, 32)
    assert list(model.backbone.channels) == config.model.neck.in_channels
    assert config.model.neck.add_extra_convs == 'on_input'
    strides = config.model.bbox_head.anchor_generator.strides
    with torch.no_grad():
        levels = model.neck(model.backbone(torch.zeros(1, 3, 256, 128)))
    assert [tuple(x.shape[1:]) for x in levels] == [(256, 256 // s, 128 // s) for s in strides]


@pytest.mark.parametrize(
    ('family', 'rate', 'weight_decay', 'batch', 'parameters'),
    [
        ('swiftformer_l1', 2e-4, 1e-4, 32, 21_169_828),
        ('efficientformerv2_s2', 2e-4, 0.05, 16, 21_801_924),
        ('mobilevitv2_100', 1e-4, 0.05, 16, 14_687_965),
    ],
)
def test_the_recipe_of_retinanet_is_the_documented_one(
    family, rate, weight_decay, batch, parameters
):
    config = load(f'retinanet_{family}')
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.lr, optimizer.weight_decay) == (rate, weight_decay)
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == batch
    assert config.train_cfg.max_epochs == 12
    assert count(build_empty(f'retinanet_{family}')) == parameters


def test_mobilevitv2_reads_rgb_in_0_to_1_at_sizes_it_never_resizes():
    model = build(load('retinanet_mobilevitv2_100'))
    batch = random_batch(80)
    bgr = batch['inputs'][0][:, :127, :65]
    batch['inputs'] = [bgr]
    image = model.data_preprocessor(batch)['inputs']
    assert image.shape == (1, 3, 128, 128)
    torch.testing.assert_close(image[0, :, :127, :65], bgr.flip(0) / 255)
    with torch.no_grad():
        maps = model.eval().backbone(image)
    assert [tuple(x.shape[2:]) for x in maps] == [(16, 16), (8, 8), (4, 4)]
