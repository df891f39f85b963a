"""Attention that SHViT is compared with, against equations."""

import pytest
import torch
import torch.nn.functional as F

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
    query, key, value = (m.unflatten(1, (num_heads, -1)).mT for m in (query, key, value))
    mixed = F.scaled_dot_product_attention(query, key, value).mT.reshape(2, 6, *size)
    joined = torch.cat([mixed, x[:, 6:]], dim=1)
    torch.testing.assert_close(layer(x), layer.proj(joined.relu()), rtol=1e-10, atol=1e-12)
