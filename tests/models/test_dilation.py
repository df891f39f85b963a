"""Dilated networks: declared strides, the maps of the strided network, weights and bad choices."""

import pytest
import torch
from torch import nn

from mmeffvit.deploy.fusion import fuse
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention
from tests.deploy.test_fusion import assert_equal_maps, randomize
from tests.models.test_contract import EFV2_TINY, TINY, build

MOBILE = dict(attention='mobile', downsampling='mobile')
RESTORE = dict(odd_size='restore')
CASES = [  # family, other arguments, output stride, declared strides
    ('MobileViTv2', RESTORE, 16, (2, 4, 8, 16, 16)),
    ('MobileViTv2', RESTORE, 8, (2, 4, 8, 8, 8)),
    ('SwiftFormer', {}, 16, (4, 8, 16, 16)),
    ('SwiftFormer', {}, 8, (4, 8, 8, 8)),
    ('SHViT', {}, 32, (16, 32, 32)),
    ('SHViT', {}, 16, (16, 16, 16)),
    ('EfficientFormerV2', {}, 16, (4, 8, 16, 16)),
    ('EfficientFormerV2', MOBILE, 16, (4, 8, 16, 16)),
    ('EfficientFormerV2', MOBILE, 8, (4, 8, 8, 8)),
]
ids = [f'{family}-{stride}-{"-".join(options)}' for family, options, stride, _ in CASES]
every_case = pytest.mark.parametrize(
    ('family', 'options', 'output_stride', 'strides'), CASES, ids=ids
)


def pair(family: str, output_stride: int, **options) -> tuple[nn.Module, nn.Module]:
    """A strided and a dilated network with the same random weights and statistics."""
    strided = randomize(build(family, TINY[family], **options)).eval()
    dilated = build(family, TINY[family], **options, output_stride=output_stride).eval()
    dilated.load_state_dict(strided.state_dict())
    return strided, dilated


@every_case
def test_any_size_gives_maps_of_the_declared_strides_with_the_same_weights(
    family, options, output_stride, strides
):
    strided, dilated = pair(family, output_stride, **options)
    assert dilated.strides == strides
    assert [info['reduction'] for info in dilated.feature_info] == list(strides)
    shapes = {name: value.shape for name, value in dilated.state_dict().items()}
    assert shapes == {name: value.shape for name, value in strided.state_dict().items()}
    for size in [(97, 61), (64, 96)]:
        with torch.no_grad():
            maps = dilated(torch.randn(1, 3, *size))
        expected = [tuple(-(-side // stride) for side in size) for stride in strides]
        assert [tuple(feature.shape[2:]) for feature in maps] == expected


@every_case
def test_a_dilated_network_trains_and_fuses(family, options, output_stride, strides):
    _, dilated = pair(family, output_stride, **options)
    assert_equal_maps(fuse(dilated), dilated, (97, 61))
    loss = sum(feature.square().mean() for feature in dilated.train()(torch.randn(2, 3, 65, 97)))
    loss.backward()
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
        if hasattr(module, 'encoders'):
            module.encoders, module.norm = nn.Identity(), nn.Identity()
    return backbone


CONVOLUTIONS = {
    'SHViT': dict(channels=(16, 24, 32), depths=(1, 1, 2), attended=(0, 0, 0)),
    # the attention of its downsampling remains: queries are denser, but keys are the same
    'EfficientFormerV2': {**EFV2_TINY, 'attended': (0, 0)},
}


@pytest.mark.parametrize(
    ('family', 'output_stride', 'size'),
    [
        ('MobileViTv2', 16, (128, 192)),  # its blocks resize odd maps
        ('MobileViTv2', 8, (128, 192)),
        *(
            (family, output_stride, size)
            for family, output_stride in (
                ('SwiftFormer', 16),
                ('SwiftFormer', 8),
                ('SHViT', 32),
                ('SHViT', 16),
                ('EfficientFormerV2', 16),
            )
            for size in ((128, 192), (101, 67))
        ),
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
