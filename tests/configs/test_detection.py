"""Mask R-CNN and RetinaNet: levels, norms and inputs of the recipe."""

import pytest
import torch

from tests.configs.models import build, build_empty, count, load, random_batch

RETINANET = ('swiftformer_l1', 'efficientformerv2_s2', 'mobilevitv2_100')


@pytest.mark.parametrize('arch', ['s2', 'l'])
def test_mobile_attention_removes_parameters_and_changes_no_other_module(arch):
    plain = build_empty(f'maskrcnn_efficientformerv2_{arch}')
    mobile = build_empty(f'maskrcnn_efficientformerv2_{arch}_mobile')
    lost = set(plain.state_dict()) - set(mobile.state_dict())
    assert lost
    assert all(name.startswith('backbone.') and '.mixer.' in name for name in lost)
    assert set(mobile.state_dict()) < set(plain.state_dict())
    assert count(plain) - count(mobile) == sum(
        parameter.numel() for name, parameter in plain.named_parameters() if name in lost
    )


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
