"""Single-head attention against its equation."""

import pytest
import torch

from mmeffvit.models.shvit.ablations import BottleneckAttention, PartialMultiHeadAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention


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


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (3, 5)])
def test_a_bottleneck_is_attention_between_a_contraction_and_an_expansion(size):
    layer = BottleneckAttention(12, attended=5).double().eval()
    torch.nn.init.uniform_(layer.proj.norm.weight)
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    reduced = torch.einsum('ca,baxy->bcxy', layer.reduce.conv.weight[:, :, 0, 0], x)
    reduced = (reduced / (1 + 1e-5) ** 0.5).clamp_min(0)  # a batch norm with its first statistics
    expected = naive(layer, reduced)
    assert expected.shape == x.shape
    torch.testing.assert_close(layer(x), expected, rtol=1e-10, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize(('size', 'num_heads'), [((1, 1), 2), ((3, 5), 3), ((3, 5), 1)])
def test_several_heads_attend_to_their_parts_of_the_channels(size, num_heads):
    layer = PartialMultiHeadAttention(14, attended=6, num_heads=num_heads).double().eval()
    torch.nn.init.uniform_(layer.proj.norm.weight)
    x = torch.randn(2, 14, *size, dtype=torch.float64)
    keys = num_heads * 16
    query, key, value = layer.qkv(layer.norm(x[:, :6])).flatten(2).split((keys, keys, 6), dim=1)
    mixed = []
    for h in range(num_heads):
        q, k, v = (m.chunk(num_heads, dim=1)[h] for m in (query, key, value))
        weights = (torch.einsum('bdn,bdm->bnm', q, k) / 4).exp()
        mixed.append(torch.einsum('bnm,bcm->bcn', weights / weights.sum(2, keepdim=True), v))
    joined = torch.cat([torch.cat(mixed, dim=1).unflatten(2, size), x[:, 6:]], dim=1)
    torch.testing.assert_close(layer(x), layer.proj(joined.relu()), rtol=1e-10, atol=1e-12)


def test_one_head_of_several_is_the_single_head_with_its_weights():
    single = SingleHeadSelfAttention(14, attended=6).eval()
    multi = PartialMultiHeadAttention(14, attended=6, num_heads=1).eval()
    torch.nn.init.uniform_(single.proj.norm.weight)
    multi.load_state_dict(single.state_dict())
    x = torch.randn(2, 14, 4, 3)
    torch.testing.assert_close(multi(x), single(x))


@pytest.mark.parametrize('num_heads', [0, 4])
def test_heads_that_do_not_divide_the_channels_are_named(num_heads):
    with pytest.raises(ValueError, match=f'6 channels are not divisible into {num_heads} heads'):
        PartialMultiHeadAttention(14, attended=6, num_heads=num_heads)


def test_the_remaining_channels_bypass_attention():
    layer = SingleHeadSelfAttention(8, attended=3).eval()
    layer.proj = torch.nn.Identity()
    x = torch.randn(1, 8, 4, 4)
    assert torch.equal(layer(x)[:, 3:], x[:, 3:].relu())
