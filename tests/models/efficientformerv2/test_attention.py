"""Local-global attention and talking-heads attention against their equations."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmeffvit.models.efficientformerv2.attention import (
    DownsamplingAttention,
    LocalGlobalAttention,
    TalkingHeadsAttention,
)


def randomize(module: nn.Module) -> nn.Module:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point():
            low, high = (0.5, 1.5) if name.endswith('var') else (-0.5, 0.5)
            nn.init.uniform_(tensor, low, high)
    return module.double().eval()


def naive(layer: TalkingHeadsAttention, query, key, value) -> torch.Tensor:
    """One head and one query at a time; the heads are mixed by M_1 and M_2 only."""
    batch, heads = query.shape[0], layer.num_heads
    bias = layer.position_bias(tuple(key.shape[2:]), layer.stride)
    q, k, v = (m.reshape(batch, heads, m.shape[1] // heads, -1) for m in (query, key, value))
    scale = q.shape[2] ** -0.5
    scores = torch.stack([q[:, h].mT @ k[:, h] * scale + bias[h] for h in range(heads)], dim=1)
    if isinstance(layer.mix_scores, nn.Conv2d):
        mix, offset = layer.mix_scores.weight[:, :, 0, 0], layer.mix_scores.bias
        scores = torch.einsum('gh,bhij->bgij', mix, scores) + offset[:, None, None]
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    if isinstance(layer.mix_weights, nn.Conv2d):
        mix, offset = layer.mix_weights.weight[:, :, 0, 0], layer.mix_weights.bias
        weights = torch.einsum('gh,bhij->bgij', mix, weights) + offset[:, None, None]
    mixed = torch.einsum('bhij,bhdj->bhdi', weights, v)
    return mixed.reshape(batch, -1, *query.shape[2:])


@pytest.mark.parametrize('mix_heads', [True, False])
@pytest.mark.parametrize('stride', [1, 2])
@pytest.mark.parametrize('size', [(4, 4), (3, 5)])
def test_attention_equals_its_equation(size, stride, mix_heads):
    layer = randomize(TalkingHeadsAttention(2, (4, 4), stride=stride, mix_heads=mix_heads))
    queries = [-(-side // stride) for side in size]
    query = torch.randn(2, 6, *queries, dtype=torch.float64)
    key, value = torch.randn(2, 6, *size).double(), torch.randn(2, 8, *size).double()
    expected = naive(layer, query, key, value)
    torch.testing.assert_close(layer(query, key, value), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('size', [(6, 8), (7, 5)])
def test_at_half_resolution_upsampling_precedes_the_activation(size):
    layer = randomize(LocalGlobalAttention(4, 6, 8, TalkingHeadsAttention(2, (3, 3)), stride=2))
    x = torch.randn(1, 4, *size, dtype=torch.float64)
    half = layer.reduce(x)
    assert half.shape[2:] == tuple(-(-side // 2) for side in size)
    value = layer.value(half)
    mixed = layer.mixer(layer.query(half), layer.key(half), value) + layer.value_local(value)
    expected = layer.project(F.gelu(F.interpolate(mixed, size, mode='bilinear')))
    torch.testing.assert_close(layer(x), expected)
    # an exact doubling is a scale factor of two
    if size == (6, 8):
        doubled = F.interpolate(mixed, scale_factor=2, mode='bilinear')
        torch.testing.assert_close(layer(x), layer.project(F.gelu(doubled)))


@pytest.mark.parametrize('size', [(6, 8), (7, 5), (1, 3)])
def test_downsampling_halves_any_size(size):
    mixer = TalkingHeadsAttention(2, (4, 4), stride=2, mix_heads=False)
    layer = randomize(DownsamplingAttention(4, 10, 6, 8, mixer))
    x = torch.randn(2, 4, *size, dtype=torch.float64)
    half = tuple(-(-side // 2) for side in size)
    assert layer(x).shape == (2, 10, *half)
    # queries attend to all keys: changing the far corner changes the first query's output
    moved = x.clone()
    moved[:, :, -1, -1] += 1
    assert (layer(x) - layer(moved))[:, :, 0, 0].abs().max() > 0
