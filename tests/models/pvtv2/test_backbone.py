"""PVTv2: sizes, initial values, both attentions."""

import pytest
import torch

from mmeffvit.models import PVTv2


def test_convolutions_start_as_those_of_the_authors():
    torch.manual_seed(0)
    backbone = PVTv2('b0')
    linear = backbone.stages[3].blocks[0].feed_forward.expand
    assert float(linear.weight.std()) == pytest.approx(0.02, rel=0.02)
    depthwise = backbone.stages[3].blocks[0].feed_forward.depthwise
    assert float(depthwise.weight.std()) == pytest.approx((2 / 9) ** 0.5, rel=0.05)
    assert not backbone.stem.conv.bias.any()


def test_weights_of_the_plain_form_fit_mobile_attention(tmp_path, log):
    torch.save(PVTv2('b0').state_dict(), tmp_path / 'plain.pth')
    mobile = PVTv2('b0', mobile_stages=(0, 1, 2))
    mobile.load_pretrained(tmp_path / 'plain.pth')
    assert '24 ignored, 0 missing' in log.text  # 6 blocks with a convolution and a norm
