"""Attention that SHViT is compared with, against equations."""

import pytest
import torch

from mmeffvit.models.shvit.ablations import BottleneckAttention, PartialMultiHeadAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention


@torch.no_grad()
def test_a_bottleneck_is_attention_between_a_contraction_and_an_expansion():
    layer = BottleneckAttention(12, attended=5).double().eval()
    torch.nn.init.uniform_(layer.proj.norm.weight)
    x = torch.randn(2, 12, 3, 5, dtype=torch.float64)
    reduced = torch.einsum('ca,baxy->bcxy', layer.reduce.conv.weight[:, :, 0, 0], x)
    reduced = (reduced / (1 + 1e-5) ** 0.5).clamp_min(0)  # a batch norm with its first statistics
    inner = SingleHeadSelfAttention(5, attended=5)
    inner.norm, inner.qkv, inner.proj = layer.norm, layer.qkv, layer.proj
    torch.testing.assert_close(layer(x), inner(reduced), rtol=1e-10, atol=1e-12)


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
