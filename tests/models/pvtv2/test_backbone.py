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


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (dict(arch='b6'), "arch is 'b6'"),
        (dict(mobile_stages=(4,)), r'mobile_stages is \(4,\); choose from 0 to 3'),
        (dict(attention='flow'), "attention is 'flow', but mobile_stages is empty"),
        (
            dict(mobile_stages=(0, 3), attention=dict(type='mobile', head_channels=5)),
            'head_channels is 5; choose a divisor of 32',
        ),
        (
            dict(arch=dict(channels=(8, 8, 8, 8), depths=(1,) * 4, expansions=(1,) * 4)),
            'divisible by',
        ),
        (dict(arch=dict(channels=(8,) * 3, depths=(1,) * 4, expansions=(1,) * 4)), '4 stages'),
        (
            dict(arch=dict(channels=(8, 8, 20, 16), depths=(0,) * 4, expansions=(1,) * 4)),
            'positive',
        ),
    ],
)
def test_invalid_arguments_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        PVTv2(**options)
