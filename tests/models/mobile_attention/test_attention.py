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
# sums of equation 5 and weights of equation 6, clipped at 1: heads by tokens
INCOMING = [[1.468718, 0.498758, 1.322813], [1.525058, 0.939145, 0.636716]]
GIVEN = [[0.981628, 0.699144, 1.0], [1.0, 1.0, 0.650123]]


SIZES, PAIRS = (8, 8, 2), dict(head_channels=2)


def golden_input() -> torch.Tensor:
    tokens = torch.arange(12, dtype=torch.float64).sin().view(3, 4)
    return tokens.T.reshape(1, 4, 1, 3)


def naive(layer: MobileAttention, query, key, value) -> torch.Tensor:
    """Equations 5 to 7 token by token and head by head, in the form of the layer."""
    eps, heads = layer.form.epsilon, query.shape[1] // layer.head_channels
    q, k = (m.flatten(2).unflatten(1, (heads, -1)) for m in (query, key))  # (B, M, D, N)
    if layer.form.kernel == 'cosine_sigmoid':
        q, k = (m / m.square().sum(2, keepdim=True).sqrt() for m in (q, k))
    q, k = 1 / (1 + (-q).exp()), 1 / (1 + (-k).exp())
    v = value.flatten(2).unflatten(1, (heads, -1))
    num_tokens = q.shape[-1]
    incoming = torch.einsum('bhdn,bdn->bhn', q + eps, k.sum(1) + eps)
    outgoing = torch.einsum('bhdn,bdn->bhn', k + eps, q.sum(1) + eps)
    received = torch.einsum('bhdn,bdn->bhn', q + eps, (k / outgoing[:, :, None]).sum(1) + eps)
    given = torch.einsum('bhdn,bdn->bhn', k + eps, (q / incoming[:, :, None]).sum(1) + eps)
    given = given.clamp(-1, 1) if layer.form.clip else given
    axis = -1 if layer.form.softmax_over == 'tokens' else 1
    weights = given.exp() / given.exp().sum(axis, keepdim=True)
    weights = weights * (given.shape[axis] if layer.form.factor else 1)
    gate = received.sigmoid()
    if not layer.competition:
        weights, gate = torch.ones_like(weights), torch.ones_like(gate)
    out = torch.empty_like(v)
    for n in range(num_tokens):
        similarity = torch.einsum('bhd,bhdm->bhm', q[..., n], k)
        total = torch.einsum('bhm,bhcm->bhc', similarity * weights, v)
        divisor = incoming[..., n] if layer.form.normalizer == 'head' else similarity.sum(-1)
        out[..., n] = total / divisor[..., None] * gate[..., n, None]
    return out.reshape(value.shape)


@pytest.mark.parametrize('normalizer', GOLDEN)
def test_recorded_values_are_met(normalizer):
    x = golden_input()
    form = dict(type='default', normalizer=normalizer)
    out = MobileAttention(*SIZES, **PAIRS, form=form)(x, x, x)[0, :, 0].T
    assert (out - torch.tensor(GOLDEN[normalizer]).double()).abs().max() < 6e-7  # six digits


def test_recorded_weights_are_met():
    from mmeffvit.models.mobile_attention.attention import flow

    half = golden_input().flatten(2).unflatten(1, (2, 2)).sigmoid()
    incoming = flow(half, half.sum(1, keepdim=True), 1e-6)
    assert (incoming[0] - torch.tensor(INCOMING)).abs().max() < 6e-7
    weights, _ = MobileAttention(*SIZES, **PAIRS).compete(half, half)
    expected = torch.tensor(GIVEN).softmax(-1) * 3
    assert (weights[0] - expected).abs().max() < 2e-6


@pytest.mark.parametrize('name', ['default', 'code', 'paper'])
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
    expected = naive(layer, query, key, value)
    torch.testing.assert_close(layer(query, key, value), expected, rtol=1e-9, atol=1e-12)


def printed(query, key, value, heads: int) -> torch.Tensor:
    """Equations 5 to 7 as printed, in loops over tokens and heads; the softmax is over tokens."""

    def phi(x):
        return 1 / (1 + (-x / x.square().sum().sqrt()).exp())

    q, k, v = (m.flatten(1).unflatten(0, (heads, -1)) for m in (query, key, value))  # (M, D, N)
    every, tokens = range(heads), range(q.shape[2])
    out = torch.empty_like(v)
    received, given = torch.empty(2, heads, len(tokens), dtype=q.dtype)
    for t in tokens:
        q_t, k_t = ([phi(m[h, :, t]) for h in every] for m in (q, k))
        incoming = [q_t[h] @ sum(k_t) for h in every]
        outgoing = [k_t[h] @ sum(q_t) for h in every]
        for h in every:
            received[h, t] = q_t[h] @ sum(k_t[i] / outgoing[i] for i in every)
            given[h, t] = k_t[h] @ sum(q_t[i] / incoming[i] for i in every)
    weights = given.exp() / given.exp().sum(1, keepdim=True)
    for h in every:
        keys = [phi(k[h, :, i]) for i in tokens]
        context = sum(torch.outer(keys[i], weights[h, i] * v[h, :, i]) for i in tokens)
        for t in tokens:
            feature = phi(q[h, :, t])
            gate = 1 / (1 + (-received[h, t]).exp())
            out[h, :, t] = gate * (feature @ context) / (feature @ sum(keys))
    return out.reshape(value.shape)


def test_the_form_of_the_paper_is_what_it_prints():
    query, key = torch.randn(2, 12, 4, 3, dtype=torch.float64)
    value = torch.randn(24, 4, 3, dtype=torch.float64)
    out = MobileAttention(*SIZES, form='paper')(query[None], key[None], value[None])[0]
    torch.testing.assert_close(out, printed(query, key, value, 3), rtol=1e-10, atol=1e-13)


def test_flows_sum_to_the_number_of_heads_and_one_head_has_no_competition():
    for heads in (1, 5):
        layer = MobileAttention(*SIZES, form='paper')
        query, key = torch.randn(2, 2, heads, 4, 7, dtype=torch.float64).sigmoid()
        received, given = layer.competed_flows(query, key)
        for flows in (received, given):
            torch.testing.assert_close(flows.sum(1), torch.full((2, 7), heads).double())


def test_without_factor_the_printed_output_shrinks_with_what_the_softmax_is_over():
    query, key = torch.randn(2, 1, 8, 8, 8, dtype=torch.float64)
    value = torch.ones(1, 8, 8, 8, dtype=torch.float64)
    for axis, number in (('tokens', 64), ('heads', 2)):
        literal, scaled = (
            MobileAttention(*SIZES, form=dict(type='paper', softmax_over=axis, factor=factor))(
                query, key, value
            )
            for factor in (False, True)
        )
        torch.testing.assert_close(literal * number, scaled)


def test_features_of_the_printed_kernel_are_bounded_and_ignore_the_length():
    layer = MobileAttention(*SIZES, form='paper')
    x = torch.randn(1, 3, 4, 50) * 100
    features = layer.phi(x)
    low, high = torch.tensor([-1.0, 1.0]).sigmoid()
    assert low <= features.min() < 0.35
    assert 0.65 < features.max() <= high
    torch.testing.assert_close(layer.phi(x / 7), features)
    assert layer.phi(torch.zeros(1, 3, 4, 2)).eq(0.5).all()


def test_competition_changes_the_output_and_its_weights_have_mean_one():
    query, key, value = torch.randn(3, 1, 8, 4, 4)
    with_it = MobileAttention(*SIZES)(query, key, value)
    without = MobileAttention(*SIZES, competition=False)(query, key, value)
    assert (with_it - without).abs().max() > 1e-2
    heads = [m.flatten(2).unflatten(1, (2, 4)).sigmoid() for m in (query, key)]
    weights, gates = MobileAttention(*SIZES).compete(*heads)
    torch.testing.assert_close(weights.mean(-1), torch.ones(1, 2))
    assert ((gates > 0.5) & (gates < 1)).all()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('offset', [-30.0, 0.0, 30.0])
def test_half_precision_stays_finite_over_many_tokens(dtype, offset):
    query, key, value = torch.randn(3, 1, 16, 64, 64) * 3
    query = query + offset
    out = MobileAttention(*SIZES)(query.to(dtype), key.to(dtype), value.to(dtype))
    assert out.isfinite().all()


def test_gradients_are_finite_where_the_sigmoid_is_nearly_zero():
    torch.manual_seed(0)
    maps = [scale * torch.randn(1, 16, 8, 8) for scale in (100, 100, 1)]
    query, key, value = maps[0] - 100, maps[1] - 100, maps[2]
    inputs = [x.requires_grad_() for x in (query, key, value)]
    MobileAttention(*SIZES)(*inputs).square().sum().backward()
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.parametrize(
    ('options', 'named'),
    [
        (
            dict(form=dict(type='code', kernel='relu')),
            r"'relu'; choose one of \('sigmoid', 'cosine_sigmoid'\)",
        ),
        (
            dict(form=dict(type='code', normalizer='row')),
            r"'row'; choose one of \('token', 'head'\)",
        ),
        (dict(head_channels=0), '0; it must be at least 1'),
        (dict(form='file'), "form is 'file'; choose one of 'default', 'code', 'paper'"),
        (dict(form=dict(type='code', decay=1)), 'change only'),
        (
            dict(form=dict(type='code', softmax_over='channels')),
            r"'channels'; choose one of \('tokens', 'heads'\)",
        ),
        (dict(form=dict(type='code', epsilon=-1)), 'epsilon is -1; it must be at least 0'),
    ],
)
def test_bad_arguments_are_named(options, named):
    with pytest.raises(ValueError, match=named):
        MobileAttention(*SIZES, **options)


@pytest.mark.parametrize('channels', [(6, 12), (8, 9)])
def test_channels_that_do_not_divide_into_heads_are_named(channels):
    query, value = (torch.zeros(1, c, 2, 2) for c in channels)
    with pytest.raises(ValueError, match=f'{channels[0]} and values of {channels[1]} channels'):
        MobileAttention(*SIZES)(query, query, value)
