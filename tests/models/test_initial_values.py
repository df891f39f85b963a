"""Weights and drop rates of new backbones are those of the authors' code."""

import pytest
import torch

from mmeffvit.models import DeiT, EfficientFormerV2, PVTv2, SwiftFormer
from mmeffvit.models.layers.regularization import DropPath, LayerScale

LAST = 'stages.3.blocks.3'
# of 120,000 weights, the standard deviation of their deviation is 0.2 %
DEVIATIONS = [
    (SwiftFormer, 'xs', f'{LAST}.feed_forward.expand.weight', 0.02, 0.02),
    (SwiftFormer, 'xs', f'{LAST}.feed_forward.expand.bias', 0.0, 0.0),
    (SwiftFormer, 'xs', f'{LAST}.attention.score.weight', 1.0, 0.2),
    (EfficientFormerV2, 's0', f'{LAST}.feed_forward.expand.conv.weight', 0.02, 0.02),
    (EfficientFormerV2, 's0', f'{LAST}.feed_forward.expand.conv.bias', 0.0, 0.0),
    (EfficientFormerV2, 's0', f'{LAST}.attention.mixer.position_bias.table', 0.0, 0.0),
    (PVTv2, 'b0', 'stages.3.blocks.0.feed_forward.expand.weight', 0.02, 0.02),
    (PVTv2, 'b0', 'stages.3.blocks.0.feed_forward.depthwise.weight', (2 / 9) ** 0.5, 0.05),
    (PVTv2, 'b0', 'stem.conv.bias', 0.0, 0.0),
    (DeiT, 't', 'stages.3.blocks.2.feed_forward.expand.weight', 0.02, 0.02),
    (DeiT, 't', 'stem.positions', 0.02, 0.02),
    (DeiT, 't', 'stages.0.blocks.0.attention.qkv.bias', 0.0, 0.0),
]


@torch.no_grad()
@pytest.mark.parametrize(('cls', 'arch', 'name', 'deviation', 'tolerance'), DEVIATIONS)
def test_weights_have_the_deviation_of_the_authors(cls, arch, name, deviation, tolerance):
    weight = cls(arch).get_parameter(name)
    assert weight.std().item() == pytest.approx(deviation, rel=tolerance)
    assert bool(weight.any()) == (deviation > 0)


@pytest.mark.parametrize(
    ('cls', 'arch', 'scales'), [(SwiftFormer, 'xs', [1e-5, 1.0]), (EfficientFormerV2, 's0', [1e-5])]
)
def test_layer_scales_are_those_of_the_authors(cls, arch, scales):
    found = {m.scale.unique().item() for m in cls(arch).modules() if isinstance(m, LayerScale)}
    assert sorted(found) == pytest.approx(scales)


@pytest.mark.parametrize(
    ('cls', 'arch', 'last', 'blocks'),
    [
        # depths 3, 3, 6, 4: the last blocks, which have attention
        (SwiftFormer, 'xs', 15, (2, 5, 11, 15)),
        (EfficientFormerV2, 's0', 13, range(14)),
    ],
)
def test_drop_path_rises_over_the_blocks(cls, arch, last, blocks):
    backbone = cls(arch, drop_path_rate=0.15)
    probs = [m.drop_prob for m in backbone.modules() if isinstance(m, DropPath)]
    assert probs == pytest.approx([0.15 * i / last for i in blocks])
