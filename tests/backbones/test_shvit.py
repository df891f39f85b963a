"""SHViT: sizes, initial values, and parity with timm on the same weights."""

import pytest
import torch

from mmeffvit.backbones import SHViT
from mmeffvit.backbones.shvit import VARIANTS, Downsample, SHViTBlock
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
