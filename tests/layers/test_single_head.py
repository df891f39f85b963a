"""Single-head attention against its equation."""

import pytest
import torch

from mmeffvit.layers.attention import SingleHeadSelfAttention


def naive(layer: SingleHeadSelfAttention, x: torch.Tensor) -> torch.Tensor:
    """Equations 1 to 3 token by token, with the batch norms in eval mode."""
    attended = layer.sizes[0]
    inner = x[:, :attended]
    mean = inner.mean(dim=(1, 2, 3), keepdim=True)
    var = inner.var(dim=(1, 2, 3), keepdim=True, unbiased=False)
    factors, offsets = (p[:, None, None] for p in (layer.norm.weight, layer.norm.bias))
    qkv = layer.qkv((inner - mean) / (var + 1e-5).sqrt() * factors + offsets).flatten(2)
    query, key, value = qkv[:, :16], qkv[:, 16:32], qkv[:, 32:]
    out = torch.empty_like(value)
    for n in range(value.shape[2]):
        weights = ((query[:, :, n : n + 1] * key).sum(dim=1) / 4).softmax(dim=1)  # (B, N)
        out[:, :, n] = (value * weights[:, None]).sum(dim=2)
    return layer.proj(torch.cat([out.view_as(inner), x[:, attended:]], dim=1).relu())


@pytest.mark.parametrize('size', [(1, 1), (3, 5)])
def test_attention_equals_its_equation(size):
    layer = SingleHeadSelfAttention(12, attended=5).double().eval()
    torch.nn.init.uniform_(layer.proj.norm.weight)
    torch.nn.init.normal_(layer.norm.weight)
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), naive(layer, x), rtol=1e-10, atol=1e-12)


def test_the_remaining_channels_bypass_attention():
    layer = SingleHeadSelfAttention(8, attended=3).eval()
    layer.proj = torch.nn.Identity()
    x = torch.randn(1, 8, 4, 4)
    assert torch.equal(layer(x)[:, 3:], x[:, 3:].relu())
