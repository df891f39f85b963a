"""SHViT: sizes, initial values."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.models import SHViT
from mmeffvit.models.backbone import Sampling
from mmeffvit.models.shvit.ablations import PartialMultiHeadAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention
from mmeffvit.models.shvit.backbone import Downsample, SHViTBlock


def test_blocks_start_as_the_identity_and_downsampling_does_not():
    x = torch.randn(2, 16, 5, 6)
    assert torch.equal(SHViTBlock(16, attended=4)(x), x)
    assert not torch.equal(Downsample(16, 24, Sampling(stride=2)).before(x), x)


PARTIAL = dict(type='partial_multi_head')


@pytest.mark.parametrize(
    ('arch', 'options', 'attended'),
    [
        ('s3', dict(partial_ratio=1 / 4.67), (0, 75, 96)),  # as released
        ('s1', dict(partial_ratio=1, attention=PARTIAL), (0, 224, 320)),
        ('s1', dict(partial_ratio=0.5, attention=dict(PARTIAL, num_heads=12)), (0, 108, 156)),
        ('s4', dict(partial_ratio=0.001), (0, 1, 1)),
    ],
)
def test_a_partial_ratio_gives_the_attended_channels(arch, options, attended):
    with torch.device('meta'):
        backbone = SHViT(arch, **options)
    layers = [m for m in backbone.modules() if isinstance(m, SingleHeadSelfAttention)]
    assert {m.sizes[0] for m in layers} == set(attended) - {0}
    heads = options['attention'].get('num_heads', 4) if 'attention' in options else 1
    assert all(isinstance(m, PartialMultiHeadAttention) == (heads > 1) for m in layers)
    assert all(m.qkv_sizes[:2] == (heads * 16, heads * 16) for m in layers)


# rows of table 6, and the single head on all channels of figure 6 (b): MACs of the
# backbone alone at 224 x 224 by another counter, and millions of parameters
ROWS = {
    '2 no attention': (dict(attention='none'), 0.5495, 12.06),
    '3 ratio 1/8': (dict(partial_ratio=1 / 8), 0.5980, 13.73),
    '5 ratio 1/2': (dict(partial_ratio=1 / 2), 0.6121, 14.17),
    'all channels': (dict(partial_ratio=1.0), 0.6513, 15.46),
}


@pytest.mark.parametrize('row', ROWS)
def test_macs_of_the_ablation(row):
    options, expected, millions = ROWS[row]
    with torch.device('meta'):
        backbone = SHViT('s3', **options).eval()
        with FlopCounterMode(display=False) as counter:
            backbone(torch.empty(1, 3, 224, 224))
    assert counter.get_total_flops() / 2e9 == pytest.approx(expected, abs=5e-5)
    assert sum(p.numel() for p in backbone.parameters()) / 1e6 == pytest.approx(millions, abs=6e-3)
    layers = [block.attention for stage in backbone.stages for block in stage.blocks]
    assert all(layer is None for layer in layers) == (row == '2 no attention')
