"""Dilated networks: declared strides, the maps of the strided network, weights and bad choices."""

import pytest
import torch
from torch import nn

from mmeffvit.deploy.fusion import fuse
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention
from tests.deploy.test_fusion import assert_equal_maps, randomize
from tests.models.test_contract import EFV2_TINY, TINY, assert_declared, build, total

MOBILE = dict(attention='mobile', downsampling='mobile')
CASES = [  # family, other arguments, output stride, declared strides
    ('MobileViTv2 restored', {}, 16, (2, 4, 8, 16, 16)),
    ('MobileViTv2 restored', {}, 8, (2, 4, 8, 8, 8)),
    ('SwiftFormer', {}, 16, (4, 8, 16, 16)),
    ('SwiftFormer', {}, 8, (4, 8, 8, 8)),
    ('SHViT', {}, 32, (16, 32, 32)),
    ('SHViT', {}, 16, (16, 16, 16)),
    ('EfficientFormerV2', {}, 16, (4, 8, 16, 16)),
    ('EfficientFormerV2', MOBILE, 16, (4, 8, 16, 16)),
    ('EfficientFormerV2', MOBILE, 8, (4, 8, 8, 8)),
]


def pair(family: str, output_stride: int, **options) -> tuple[nn.Module, nn.Module]:
    """A strided and a dilated network with the same random weights and statistics."""
    strided = randomize(build(family, TINY[family], **options)).eval()
    dilated = build(family, TINY[family], **options, output_stride=output_stride).eval()
    dilated.load_state_dict(strided.state_dict())
    return strided, dilated


@pytest.mark.parametrize(('family', 'options', 'output_stride', 'strides'), CASES, ids=str)
def test_a_dilated_network_has_the_declared_strides_at_any_size_trains_and_fuses(
    family, options, output_stride, strides
):
    dilated = pair(family, output_stride, **options)[1]
    assert dilated.strides == strides
    assert [info['reduction'] for info in dilated.feature_info] == list(strides)
    for size in [(97, 61), (64, 96)]:
        assert_declared(family, dilated, size)
    assert_equal_maps(fuse(dilated), dilated, (97, 61))
    total(dilated.train()(torch.randn(2, 3, 65, 97))).backward()
    assert all(p.grad.isfinite().all() for p in dilated.parameters())


def test_exported_maps_of_one_stride_are_told_apart_by_their_stages():
    backbone = build('SwiftFormer', TINY['SwiftFormer'], output_stride=16, out_indices=(1, 2, 3))
    names = BackboneGraph(backbone).output_names
    assert names == ('stride_8', 'stride_16_stage_2', 'stride_16_stage_3')


class Nothing(nn.Module):
    """A residual branch that adds nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def without_global_layers(backbone: nn.Module) -> nn.Module:
    """Without what depends on all positions, whose number differs between the two networks."""
    for module in backbone.modules():
        if isinstance(getattr(module, 'attention', None), EfficientAdditiveAttention):
            module.attention = Nothing()
        if hasattr(module, 'excite'):
            module.excite = nn.Identity()
    return backbone


CONVOLUTIONS = {
    'SHViT': dict(channels=(16, 24, 32), depths=(1, 1, 2), attended=(0, 0, 0)),
    # the attention of its downsampling remains: queries are denser, but keys are the same
    'EfficientFormerV2': {**EFV2_TINY, 'attended': (0, 0)},
}


# MobileViTv2 is compared with timm's
@pytest.mark.parametrize('size', [(128, 192), (101, 67)])
@pytest.mark.parametrize(
    ('family', 'output_stride'),
    [
        ('SwiftFormer', 16),
        ('SwiftFormer', 8),
        ('SHViT', 32),
        ('SHViT', 16),
        ('EfficientFormerV2', 16),
    ],
)
def test_every_second_or_fourth_pixel_is_that_of_the_strided_network(
    family, output_stride, size, monkeypatch
):
    monkeypatch.setitem(TINY, family, CONVOLUTIONS.get(family, TINY[family]))
    networks = pair(family, output_stride)
    strided, dilated = (without_global_layers(network).double() for network in networks)
    image = torch.randn(1, 3, *size, dtype=torch.float64)
    with torch.no_grad():
        coarse, fine = strided(image), dilated(image)
    factors = [a // b for a, b in zip(strided.strides, dilated.strides, strict=True)]
    assert max(factors) == strided.strides[-1] // output_stride
    for expected, feature, factor in zip(coarse, fine, factors, strict=True):
        found = feature[:, :, ::factor, ::factor]
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        assert expected.std() > 1e-3  # of a map that carries something
