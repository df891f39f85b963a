"""Mobile-Attention against its equations and against values recorded from the authors' file."""

import pytest
import torch

from mmeffvit.models.mobile_attention.attention import MobileAttention

# input sin(4 n + c) of 3 tokens and 4 channels, 2 heads of 2 channels, every projection the
# identity; tokens by channels, as the authors' file gives them in float64, and with eq. 7's divisor
GOLDEN = {
    'head': [
        [0.315841, 0.372628, 0.204492, 0.138613],
        [0.435600, 0.486576, 0.276702, 0.244643],
        [0.436688, 0.484987, 0.224125, 0.150495],
    ],
    'token': [
        [0.247213, 0.291661, 0.167685, 0.113664],
        [0.233225, 0.260519, 0.161021, 0.142365],
        [0.278034, 0.308785, 0.150499, 0.101056],
    ],
}
SIZES = (8, 8, 2)
# of the authors' file, and of the paper's equations
CODE = dict(
    kernel='sigmoid', clip=True, factor=True, softmax_over='tokens', normalizer='head',
    epsilon=1e-6,
)  # fmt: skip
FORMS = {
    'default': CODE | dict(normalizer='token'),
    'code': CODE,
    'paper': CODE
    | dict(kernel='cosine_sigmoid', clip=False, factor=False, normalizer='token', epsilon=0.0),
}


def golden_input() -> torch.Tensor:
    tokens = torch.arange(12, dtype=torch.float64).sin().view(3, 4)
    return tokens.T.reshape(1, 4, 1, 3)


def naive(form: dict, competition: bool, query, key, value) -> torch.Tensor:
    """Equations 5 to 7 token by token, in heads of 4 channels."""
    eps, heads = form['epsilon'], query.shape[1] // 4
    q, k = (m.flatten(2).unflatten(1, (heads, -1)) for m in (query, key))  # (B, M, D, N)
    if form['kernel'] == 'cosine_sigmoid':
        q, k = (m / m.square().sum(2, keepdim=True).sqrt() for m in (q, k))
    q, k = 1 / (1 + (-q).exp()), 1 / (1 + (-k).exp())
    v = value.flatten(2).unflatten(1, (heads, -1))
    num_tokens = q.shape[-1]
    incoming = torch.einsum('bhdn,bdn->bhn', q + eps, k.sum(1) + eps)
    outgoing = torch.einsum('bhdn,bdn->bhn', k + eps, q.sum(1) + eps)
    received = torch.einsum('bhdn,bdn->bhn', q + eps, (k / outgoing[:, :, None]).sum(1) + eps)
    given = torch.einsum('bhdn,bdn->bhn', k + eps, (q / incoming[:, :, None]).sum(1) + eps)
    given = given.clamp(-1, 1) if form['clip'] else given
    axis = -1 if form['softmax_over'] == 'tokens' else 1
    weights = given.exp() / given.exp().sum(axis, keepdim=True)
    weights = weights * (given.shape[axis] if form['factor'] else 1)
    gate = received.sigmoid()
    if not competition:
        weights, gate = torch.ones_like(weights), torch.ones_like(gate)
    out = torch.empty_like(v)
    for n in range(num_tokens):
        similarity = torch.einsum('bhd,bhdm->bhm', q[..., n], k)
        total = torch.einsum('bhm,bhcm->bhc', similarity * weights, v)
        divisor = incoming[..., n] if form['normalizer'] == 'head' else similarity.sum(-1)
        out[..., n] = total / divisor[..., None] * gate[..., n, None]
    return out.reshape(value.shape)


@pytest.mark.parametrize('normalizer', GOLDEN)
def test_recorded_values_are_met(normalizer):
    x = golden_input()
    form = dict(token='default', head='code')[normalizer]
    out = MobileAttention(*SIZES, head_channels=2, form=form)(x, x, x)[0, :, 0].T
    assert (out - torch.tensor(GOLDEN[normalizer]).double()).abs().max() < 6e-7  # six digits


@pytest.mark.parametrize('name', FORMS)
@pytest.mark.parametrize(
    ('changed', 'competition'),
    [
        ({}, True),
        ({}, False),
        (dict(softmax_over='heads', clip=True, factor=False), True),
        (dict(softmax_over='heads', clip=False, factor=True), True),
        (dict(kernel='cosine_sigmoid', normalizer='head'), True),
    ],
)
def test_every_form_equals_its_equations(name, changed, competition):
    layer = MobileAttention(*SIZES, form=dict(type=name, **changed), competition=competition)
    query, key = torch.randn(2, 2, 12, 5, 3, dtype=torch.float64)
    value = torch.randn(2, 24, 5, 3, dtype=torch.float64)
    expected = naive(FORMS[name] | changed, competition, query, key, value)
    torch.testing.assert_close(layer(query, key, value), expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_finite_where_the_sigmoid_is_nearly_zero():
    maps = [scale * torch.randn(1, 16, 8, 8) for scale in (100, 100, 1)]
    query, key, value = maps[0] - 100, maps[1] - 100, maps[2]
    inputs = [x.requires_grad_() for x in (query, key, value)]
    MobileAttention(*SIZES)(*inputs).square().sum().backward()
    assert all(x.grad.isfinite().all() for x in inputs)


def test_zeros_have_finite_outputs_in_half_precision():
    zeros = [torch.zeros(1, 16, 3, 3).half() for _ in range(3)]
    assert MobileAttention(*SIZES, form='paper').half()(*zeros).isfinite().all()
