"""Graphs of models without boxes compute what the models do."""

import pytest
import torch

from mmeffvit.deploy.fuse import fuse
from mmeffvit.deploy.graphs.plain import SegFormerFusion
from tests.models.parity import randomized

SHAPES = ((1, 8, 8), (4, 17, 24), (6, 9, 12), (8, 5, 6))  # the first is not used


@pytest.mark.parametrize('norm', [dict(type='BN'), dict(type='GN', num_groups=2), None])
@pytest.mark.parametrize('align_corners', [False, True])
def test_maps_convolved_before_their_resize_give_the_logits_of_segformers_head(norm, align_corners):
    heads = pytest.importorskip('mmseg.models.decode_heads')
    head = heads.SegformerHead(
        in_channels=[4, 6, 8],
        in_index=[1, 2, 3],
        channels=10,
        num_classes=5,
        norm_cfg=norm,
        align_corners=align_corners,
    )
    head = randomized(head).double().eval()
    maps = [torch.randn(2, *shape, dtype=torch.double) for shape in SHAPES]
    expected = head(maps)
    found = SegFormerFusion(fuse(head))(maps)
    torch.testing.assert_close(found, expected)
    assert expected.std() > 0.01
