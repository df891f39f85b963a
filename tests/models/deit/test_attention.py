"""Multi-head attention against its equation, and its maps."""

import pytest
import torch

from mmeffvit.models.deit.attention import MultiHeadAttention

SIZE = (3, 5)


def naive(layer: MultiHeadAttention, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Token by token and head by head: the output, and the weights (B, M, N, N)."""
    batch, tokens, channels = x.shape
    width = channels // layer.num_heads
    weights = x.new_zeros(batch, layer.num_heads, tokens, tokens)
    mixed = torch.empty_like(x)
    query, key, value = (x @ w.T + b for w, b in zip(
        layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True
    ))  # fmt: skip
    for head in range(layer.num_heads):
        own = slice(head * width, (head + 1) * width)
        for n in range(tokens):
            scores = (query[:, n : n + 1, own] * key[:, :, own]).sum(dim=2) / width**0.5
            weights[:, head, n] = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
            mixed[:, n, own] = (weights[:, head, n, :, None] * value[:, :, own]).sum(dim=1)
    return mixed @ layer.proj.weight.T + layer.proj.bias, weights


@pytest.mark.parametrize('num_tokens', [0, 1])
def test_attention_equals_its_equation(num_tokens):
    layer = MultiHeadAttention(12, 3).double()
    x = torch.randn(2, num_tokens + 15, 12, dtype=torch.float64)
    torch.testing.assert_close(layer(x, SIZE), naive(layer, x)[0], rtol=1e-10, atol=1e-12)


def test_maps_are_the_weights_of_cells_and_of_the_class_token():
    layer = MultiHeadAttention(12, 3).double().eval()
    x = torch.randn(1, 1 + 15, 12, dtype=torch.float64)
    _, weights = naive(layer, x)
    seen = []
    reading = layer.read_attention((x, SIZE), lambda size: seen.append(size) or 7)
    assert seen[0] == SIZE
    close = torch.testing.assert_close
    close(reading.arrays['attention'].flatten(1), weights[0, :, 1 + 7, 1:])
    close(reading.arrays['class_tokens'].flatten(1), weights[0, :, 0, 1:])
    close(reading.maps[''], reading.arrays['attention'].mean(dim=0))
    of_all = layer.read_attention((x, SIZE), None)
    close(of_all.arrays['attention'].flatten(1), weights[0, :, 1:, 1:].mean(dim=1))
    assert 'class_tokens' not in layer.read_attention((x[:, 1:], SIZE), None).arrays


def test_channels_that_are_no_multiple_of_the_heads_are_named():
    with pytest.raises(ValueError, match='16 channels are not divisible into 3 heads'):
        MultiHeadAttention(16, 3)
