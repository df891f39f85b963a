"""Separable self-attention without keys, for inference."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.models.mobilevitv2.attention import (
    KeylessSeparableSelfAttention,
    SeparableSelfAttention,
)


@pytest.mark.parametrize('layout', [torch.contiguous_format, torch.channels_last])
def test_without_keys_the_values_are_the_same(layout):
    layer = SeparableSelfAttention(6).double().eval()
    keyless = KeylessSeparableSelfAttention(layer)
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64).contiguous(memory_format=layout)
    torch.testing.assert_close(keyless(x), layer(x), rtol=1e-10, atol=1e-12)


def test_without_keys_one_projection_of_the_map_is_left_out():
    channels, patches, positions = 64, 36, 4
    x = torch.zeros(1, channels, 12, 12)
    layer = SeparableSelfAttention(channels).eval()
    costs = []
    for attention in (layer, KeylessSeparableSelfAttention(layer)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            attention(x)
        costs.append(counter.get_total_flops() // 2)
    assert costs[0] - costs[1] == channels**2 * (patches - 1) * positions
