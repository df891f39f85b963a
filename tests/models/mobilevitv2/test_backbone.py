"""MobileViTv2: sizes, odd maps, dilation, and parity with timm on the same weights."""

import pytest
import torch

from mmeffvit.models import MobileViTv2
from tests.models.parity import assert_same_maps, load_from, randomized


@pytest.mark.parametrize('output_stride', [16, 8])
def test_dilated_maps_equal_those_of_timm(timm, tmp_path, output_stride):
    theirs = randomized(timm.create_model('mobilevitv2_050', output_stride=output_stride))
    ours = load_from(MobileViTv2('050', output_stride=output_stride), theirs, tmp_path)
    assert_same_maps(ours, theirs, torch.randn(1, 3, 128, 192))


def test_any_multiple_of_the_width_builds():
    # 64 * 0.33 is nearest to 16, but that is under nine tenths of it
    assert MobileViTv2(0.33).channels == (32, 40, 88, 128, 168)


def test_restored_maps_equal_the_official_ones_where_none_is_odd():
    official = MobileViTv2('050').eval()
    restored = MobileViTv2('050', odd_size='restore').eval()
    restored.load_state_dict(official.state_dict())
    x = torch.rand(1, 3, 128, 192)
    with torch.no_grad():
        for ours, other in zip(restored(x), official(x), strict=True):
            assert torch.equal(ours, other)
