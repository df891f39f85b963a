"""SHViT: sizes, initial values, and parity with timm on the same weights."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.backbones import SHViT
from mmeffvit.backbones.shvit import VARIANTS, Downsample, SHViTBlock
from tests.backbones.parity import assert_same_gradients, assert_same_maps, randomised

# without the classifier; multiply-adds in 10**9 and the side of the square image they hold for
SIZES = {
    's1': (6_009_168, 0.2413, 224),
    's2': (11_033_176, 0.3654, 224),
    's3': (13_795_377, 0.6006, 224),
    's4': (16_138_588, 0.9862, 256),
}


@pytest.mark.parametrize('arch', SIZES)
def test_parameters_are_as_counted_from_the_official_code(arch):
    assert sum(p.numel() for p in SHViT(arch).parameters()) == SIZES[arch][0]


@pytest.mark.parametrize('arch', SIZES)
def test_multiply_adds_are_within_one_percent_of_the_official_ones(arch):
    _, giga_macs, side = SIZES[arch]
    with FlopCounterMode(display=False) as counter, torch.device('meta'):
        SHViT(arch).eval()(torch.empty(1, 3, side, side))
    assert counter.get_total_flops() / 2e9 == pytest.approx(giga_macs, rel=0.01)


@pytest.mark.parametrize('arch', VARIANTS)
def test_maps_equal_those_of_timm(timm, tmp_path, arch):
    assert_same_maps(SHViT(arch), randomised(timm.create_model(f'shvit_{arch}')), tmp_path)


def test_gradients_equal_those_of_timm(timm, tmp_path):
    assert_same_gradients(SHViT('s1'), randomised(timm.create_model('shvit_s1')), tmp_path)


def test_blocks_start_as_the_identity_and_downsampling_does_not():
    x = torch.randn(2, 16, 5, 6)
    assert torch.equal(SHViTBlock(16, attended=4)(x), x)
    assert not torch.equal(Downsample(16, 24).before(x), x)


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
