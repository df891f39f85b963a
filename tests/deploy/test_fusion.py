"""Fused models give the outputs of the original model."""

import copy

import pytest
import torch
from mmcv.cnn import ConvModule
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mmeffvit.deploy import fuse
from mmeffvit.models.backbone import Backbone
from mmeffvit.models.layers.regularization import LayerScale
from tests.conftest import ROOT
from tests.models.parity import randomized
from tests.models.test_contract import CASES, SMALLEST, build
from tests.variants import sampled


def assert_equal_maps(fused: nn.Module, model: nn.Module, size: tuple[int, int]) -> None:
    x = torch.randn(1, 3, *size)
    with torch.no_grad():
        for ours, other in zip(fused(x), model(x), strict=True):
            assert (ours - other).abs().max() <= 1e-4 * other.abs().max()


def randomize(model: nn.Module) -> nn.Module:
    """Random statistics and layer scales, so that a wrong fold is detected."""
    randomized(model)
    for module in model.modules():
        if isinstance(module, _BatchNorm | nn.GroupNorm) and module.affine:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
        if isinstance(module, LayerScale):
            nn.init.uniform_(module.scale, 0.5, 1.5)
    return model


@pytest.mark.parametrize(('family', 'arch'), sampled(CASES, SMALLEST))
def test_fused_maps_are_equal_and_no_batch_norm_is_left(family, arch):
    backbone = randomize(build(family, arch))
    before = copy.deepcopy(backbone.state_dict())
    fused = fuse(backbone)
    for size in [(97, 71), (128, 64)]:
        assert_equal_maps(fused, backbone, size)
    left = [name for name, m in fused.named_modules() if isinstance(m, _BatchNorm)]
    assert all(name.startswith('output_norms') for name in left)
    assert not any(isinstance(m, LayerScale) for m in fused.modules())
    assert not any(m.affine for m in fused.modules() if isinstance(m, nn.GroupNorm))
    # and the original model is unchanged
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())


def test_a_fused_backbone_is_in_eval_mode_for_any_mode_of_its_source():
    backbone = build('SHViT', 's1').train()
    assert not fuse(backbone).training
    assert backbone.training


@pytest.mark.parametrize(
    'config_name', ['maskrcnn_swiftformer_xs_shapes', 'retinanet_shvit_s4', 'gflite_shvit_s1']
)
def test_a_fused_detector_finds_the_same(config_name):
    from mmdet.registry import MODELS
    from mmdet.structures import DetDataSample

    config = Config.fromfile(ROOT / 'configs' / f'{config_name}.py')
    init_default_scope(config.default_scope)
    config.model.backbone.init_cfg = None
    model = randomize(MODELS.build(config.model))
    fused = fuse(model)
    left = [name for name, m in fused.named_modules() if isinstance(m, _BatchNorm)]
    assert all(name.startswith('backbone.output_norms') for name in left)
    assert isinstance(fused.backbone, Backbone)
    shape = (128, 160)
    meta = dict(img_shape=shape, ori_shape=shape, scale_factor=(1.0, 1.0), batch_input_shape=shape)
    x = torch.randn(1, 3, *shape)
    with torch.no_grad():
        for level, other in zip(fused.extract_feat(x), model.extract_feat(x), strict=True):
            assert (level - other).abs().max() <= 1e-4 * other.abs().max()
        found, expected = (
            m.predict(x, [DetDataSample(metainfo=meta)])[0].pred_instances for m in (fused, model)
        )
    assert len(found) == len(expected)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-3, atol=1e-4)


def test_a_convolution_that_normalizes_its_weights_stays_as_it_is():
    module = ConvModule(4, 8, 3, conv_cfg=dict(type='ConvWS'), norm_cfg=dict(type='BN'))
    module, images = randomize(module).eval(), torch.randn(1, 4, 9, 9)
    with torch.no_grad():
        assert torch.equal(fuse(module)(images), module(images))


def test_convolutions_shared_by_levels_are_folded_with_the_norm_of_each_level():
    from mmdet.registry import MODELS

    head = MODELS.build(
        dict(
            type='mmdet.RTMDetSepBNHead', num_classes=3, in_channels=8, feat_channels=8,
            stacked_convs=1, share_conv=True, pred_kernel_size=1,
            anchor_generator=dict(type='mmdet.MlvlPointGenerator', offset=0, strides=[8, 16, 32]),
        )
    )  # fmt: skip
    head = randomize(head)
    assert head.cls_convs[0][0].conv is head.cls_convs[1][0].conv
    fused = fuse(head)
    levels = [torch.randn(1, 8, side, side) for side in (8, 4, 2)]
    with torch.no_grad():
        for found, expected in zip(fused(levels), head(levels), strict=True):
            for ours, other in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
    assert not any(isinstance(m, _BatchNorm) for m in fused.modules())
