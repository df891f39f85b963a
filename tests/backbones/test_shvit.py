"""SHViT: sizes, initial values, and parity with timm on the same weights."""

import pytest
import torch

from mmeffvit.backbones import SHViT
from mmeffvit.backbones.shvit import VARIANTS, Downsample, SHViTBlock, with_ratio
from mmeffvit.layers.attention import PartialMultiHeadAttention, SingleHeadSelfAttention
from tests.backbones.parity import assert_same_gradients, assert_same_maps, randomized


@pytest.mark.parametrize('arch', VARIANTS)
def test_maps_equal_those_of_timm(timm, tmp_path, arch):
    assert_same_maps(SHViT(arch), randomized(timm.create_model(f'shvit_{arch}')), tmp_path)


def test_gradients_equal_those_of_timm(timm, tmp_path):
    assert_same_gradients(SHViT('s1'), randomized(timm.create_model('shvit_s1')), tmp_path)


def test_blocks_start_as_the_identity_and_downsampling_does_not():
    x = torch.randn(2, 16, 5, 6)
    assert torch.equal(SHViTBlock(16, attended=4)(x), x)
    assert not torch.equal(Downsample(16, 24).before(x), x)


@pytest.mark.parametrize(
    ('arch', 'options', 'attended'),
    [
        ('s3', dict(partial_ratio=1 / 4.67), (0, 75, 96)),  # as released
        ('s1', dict(partial_ratio=1, num_heads=4), (0, 224, 320)),
        ('s1', dict(partial_ratio=0.5, num_heads=12), (0, 108, 156)),
        ('s4', dict(partial_ratio=0.001), (0, 1, 1)),
    ],
)
def test_a_partial_ratio_gives_the_attended_channels(arch, options, attended):
    with torch.device('meta'):
        backbone = SHViT(arch, **options)
    layers = [m for m in backbone.modules() if isinstance(m, SingleHeadSelfAttention)]
    assert {m.sizes[0] for m in layers} == set(attended) - {0}
    heads = options.get('num_heads', 1)
    assert all(isinstance(m, PartialMultiHeadAttention) == (heads > 1) for m in layers)
    assert all(m.qkv_sizes[:2] == (heads * 16, heads * 16) for m in layers)


def test_the_ratio_of_the_paper_is_that_of_the_released_models_to_one_channel():
    for arch in VARIANTS.values():
        found = with_ratio(arch, 1 / 4.67, 1).attended
        assert all(abs(a - b) <= 1 for a, b in zip(found, arch.attended, strict=True))


@pytest.mark.parametrize(
    ('options', 'named'),
    [
        (dict(partial_ratio=0), 'partial_ratio is 0; choose a number above 0 and at most 1'),
        (dict(partial_ratio=1.5), 'partial_ratio is 1.5'),
        (dict(num_heads=0), 'num_heads is 0; it starts at 1'),
        (dict(num_heads=5), '48 channels are not divisible into 5 heads'),
    ],
)
def test_impossible_heads_and_ratios_are_named(options, named):
    with pytest.raises(ValueError, match=named):
        SHViT('s1', **options)


@pytest.mark.parametrize(
    'sizes',
    [
        dict(channels=(16, 24), depths=(1, 1), attended=(0, 8)),
        dict(channels=(16, 24, 32), depths=(1, 1, 1), attended=(0, 8, 33)),
        dict(channels=(20, 24, 32), depths=(1, 1, 1), attended=(0, 8, 8)),
    ],
)
def test_impossible_sizes_are_named(sizes):
    with pytest.raises(ValueError, match='got SHViTArch'):
        SHViT(sizes)
