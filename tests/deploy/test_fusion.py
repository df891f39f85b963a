"""Fused models give the outputs of the original model."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mmeffvit.deploy import fuse
from mmeffvit.deploy.compare import compare_objects, expect_model
from mmeffvit.models.backbone import Backbone
from mmeffvit.models.layers.folding import absorb_affine
from mmeffvit.models.layers.regularization import LayerScale
from tests.deploy import models
from tests.deploy.formats.onnx.test_write import assert_agrees
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
    'config_name', ['rtmdet_swiftformer_xs', 'gflite_swiftformer_xs', models.MASK_RCNN]
)
def test_a_fused_detector_finds_the_same(config_name):
    """RTMDet shares convolutions among levels, which are folded with the norm of each."""
    model, images = models.tiny(config_name), models.smooth_image((128, 160))
    fused = fuse(model)
    left = [name for name, m in fused.named_modules() if isinstance(m, _BatchNorm)]
    assert all(name.startswith('backbone.output_norms') for name in left)
    assert isinstance(fused.backbone, Backbone)
    expected, found = (
        expect_model(each, images, models.sample_of(model))[0] for each in (model, fused)
    )
    for each in (expected, found):
        each.pop('masks', None)  # in the image, not in their boxes
    assert len(expected['scores']) > 5
    assert_agrees(compare_objects(expected, found))


def test_a_bias_is_not_folded_into_a_padded_convolution():
    conv = nn.Conv2d(4, 4, 3, padding=1)
    with pytest.raises(ValueError, match='1x1'):
        absorb_affine(conv, torch.ones(4), torch.ones(4))
