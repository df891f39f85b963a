"""Forms of efficient additive attention against their equations, and their norm."""

import pytest
import torch
import torch.nn.functional as F

from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.swiftformer.ablations import KeyValueAdditiveAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 7)])
def test_attention_with_keys_and_values_equals_its_equation(size):
    layer = KeyValueAdditiveAttention(12).double()
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    query, key = (F.normalize(conv(x), dim=1) for conv in (layer.query, layer.key))
    weights = F.normalize(layer.score(query), dim=(2, 3))  # over the tokens
    key = key * (weights * query).sum((2, 3), keepdim=True)
    weights = F.normalize(layer.key_score(key), dim=(2, 3))
    global_key = (weights * key).sum((2, 3), keepdim=True)
    expected = layer.out(layer.proj(global_key * layer.value(x)) + query)
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 7)])
def test_the_form_of_the_paper_is_equations_4_to_6(size):
    layer = EfficientAdditiveAttention(12, form='paper').double()
    assert not any(key.startswith('out') for key in layer.state_dict())
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    query, key = layer.query(x), layer.key(x)
    alpha = layer.score(query) / 12**0.5
    pooled = (alpha * query).sum((2, 3), keepdim=True)
    expected = F.normalize(query, dim=1) + layer.proj(key * pooled)
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)
    read = layer.read_attention((x[:1],), None).arrays['weights']
    torch.testing.assert_close(read.flatten(), alpha[0].flatten())


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_a_zero_vector_has_a_norm_in_half_precision(dtype):
    out = unit_norm(torch.zeros(1, 4, 2, 2, dtype=dtype), dim=1)
    assert out.dtype == dtype
    assert not out.any()


@pytest.mark.parametrize('dim', [1, (2, 3)])
def test_the_gradient_of_a_norm_equals_that_of_its_formula(dim):
    x = torch.randn(2, 5, 4, 3, dtype=torch.float64, requires_grad=True)
    expected = x / x.square().sum(dim=dim, keepdim=True).sqrt()
    torch.testing.assert_close(unit_norm(x, dim), expected)
    factors = torch.randn_like(x)
    (found,) = torch.autograd.grad((unit_norm(x, dim) * factors).sum(), x)
    (wanted,) = torch.autograd.grad((expected * factors).sum(), x)
    torch.testing.assert_close(found, wanted)
    assert torch.autograd.gradgradcheck(lambda x: unit_norm(x, dim), (x[:1, :2, :2, :2],))
