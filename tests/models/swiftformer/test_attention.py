"""Forms of efficient additive attention against their equations, and their norm."""

import pytest
import torch

from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.swiftformer.ablations import KeyValueAdditiveAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 7)])
def test_attention_with_keys_and_values_equals_its_equation(size):
    layer = KeyValueAdditiveAttention(12).double()
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    for image, found in zip(x, layer(x), strict=True):

        def linear(conv, tokens):
            bias = 0 if conv.bias is None else conv.bias
            return torch.einsum('oc,nc->no', conv.weight[:, :, 0, 0], tokens) + bias

        tokens = image.flatten(1).T
        query, key, value = (linear(c, tokens) for c in (layer.query, layer.key, layer.value))
        query, key = (m / m.square().sum(1, keepdim=True).sqrt() for m in (query, key))
        weights = linear(layer.score, query)
        key = key * (weights / weights.square().sum().sqrt() * query).sum(0)
        weights = linear(layer.key_score, key)
        global_key = (weights / weights.square().sum().sqrt() * key).sum(0)
        expected = linear(layer.out, linear(layer.proj, global_key * value) + query)
        torch.testing.assert_close(found, expected.T.unflatten(1, size), rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 7)])
def test_the_form_of_the_paper_is_equations_4_to_6(size):
    layer = EfficientAdditiveAttention(12, form='paper').double()
    assert not any(key.startswith('out') for key in layer.state_dict())
    x = torch.randn(2, 12, *size, dtype=torch.float64)
    for image, found in zip(x, layer(x), strict=True):
        tokens = image.flatten(1).T
        query, key = (tokens @ c.weight[:, :, 0, 0].T + c.bias for c in (layer.query, layer.key))
        alpha = query @ layer.score.weight[0, :, 0, 0] / 12**0.5
        pooled = sum(alpha[i] * query[i] for i in range(len(query)))
        context = (key * pooled) @ layer.proj.weight[:, :, 0, 0].T + layer.proj.bias
        expected = query / query.square().sum(1, keepdim=True).sqrt() + context
        torch.testing.assert_close(found, expected.T.unflatten(1, size), rtol=1e-9, atol=1e-12)
        read = layer.read_attention((image[None],), None).arrays['weights']
        torch.testing.assert_close(read.flatten(), alpha)


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
