"""Separable self-attention against its equation."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.models.mobilevitv2.attention import (
    KeylessSeparableSelfAttention,
    SeparableSelfAttention,
)


def naive(layer: SeparableSelfAttention, x: torch.Tensor) -> torch.Tensor:
    """Equation 3 for each position in a patch separately, on tokens sliced from the map."""
    weight, bias = layer.qkv.weight.flatten(1), layer.qkv.bias
    channels, patch = x.shape[1], layer.patch_size
    out = torch.empty_like(x)
    for row in range(patch):
        for column in range(patch):
            tokens = x[:, :, row::patch, column::patch].flatten(2).transpose(1, 2)  # (B, N, C)
            logits, keys, values = (tokens @ weight.T + bias).split((1, channels, channels), dim=2)
            context = (logits.softmax(dim=1) * keys).sum(dim=1, keepdim=True)  # (B, 1, C)
            mixed = values.relu() * context
            mixed = mixed @ layer.out.weight.flatten(1).T + layer.out.bias
            place = out[:, :, row::patch, column::patch]
            place.copy_(mixed.transpose(1, 2).reshape(place.shape))
    return out


@pytest.mark.parametrize('size', [(2, 2), (4, 6), (12, 2)])
@pytest.mark.parametrize('patch_size', [1, 2])
def test_attention_equals_its_equation(size, patch_size):
    layer = SeparableSelfAttention(6, patch_size).double()
    x = torch.randn(2, 6, *size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), naive(layer, x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('layout', [torch.contiguous_format, torch.channels_last])
def test_without_keys_the_values_are_the_same(layout):
    layer = SeparableSelfAttention(6).double().eval()
    keyless = KeylessSeparableSelfAttention(layer)
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64).contiguous(memory_format=layout)
    torch.testing.assert_close(keyless(x), naive(layer, x), rtol=1e-10, atol=1e-12)


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


def test_scores_are_a_distribution_over_the_patches_of_each_position():
    layer = SeparableSelfAttention(4)
    query = torch.randn(3, 1, 4, 6)
    scores = layer.scores(query, layer.positions(2, 3))
    torch.testing.assert_close(scores.sum(dim=2), torch.ones(3, 4))
    # of the position at row 1, column 0 of a patch
    corner = query[:, 0, 1::2, 0::2].flatten(1).softmax(dim=1)
    found = scores[:, 2].view(3, 4, 6)
    torch.testing.assert_close(found[:, 1::2, 0::2].flatten(1), corner)
    assert torch.count_nonzero(found) == corner.numel()  # zero at all other positions


def test_tokens_at_different_patch_positions_do_not_interact():
    layer = SeparableSelfAttention(4).eval()
    x = torch.randn(1, 4, 4, 4)
    moved = x.clone()
    moved[:, :, 0::2, 0::2] += 1
    changed = (layer(x) - layer(moved)).abs().amax(dim=(0, 1)) > 1e-6
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0::2, 0::2] = True
    assert torch.equal(changed, expected)


def test_its_constant_is_not_in_the_state_dict():
    assert set(SeparableSelfAttention(4).state_dict()) == {
        'qkv.weight', 'qkv.bias', 'out.weight', 'out.bias'
    }  # fmt: skip
