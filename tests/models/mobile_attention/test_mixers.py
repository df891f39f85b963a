"""Token mixers that replace Mobile-Attention, each against its equation token by token."""

import math
from functools import partial
from inspect import signature

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.choice import choose
from mmeffvit.models.mobile_attention.mixers import MIXERS

CHANNELS, VALUES = 12, 24
NAMES = [name for name in MIXERS if name != 'mobile']  # has tests of its own


def make(name: str, channels: int, value_channels: int, num_heads: int, **own) -> nn.Module:
    chosen = choose(dict(type=name, **own), MIXERS)
    return chosen(channels, value_channels, num_heads).eval()


def build(name: str, **own) -> nn.Module:
    torch.manual_seed(1)
    layer = make(name, CHANNELS, VALUES, CHANNELS // 4, **own).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def maps(size: tuple[int, int], batch: int = 2) -> list[Tensor]:
    return [torch.randn(batch, c, *size, dtype=torch.float64) for c in (CHANNELS, CHANNELS, VALUES)]


def by_head(of_heads, layer: nn.Module, *inputs: Tensor) -> Tensor:
    """Run ``of_heads(layer, q, k, v)`` on the tokens of every head, (B, M, N, D)."""
    heads = CHANNELS // layer.head_channels
    q, k, v = (m.unflatten(1, (heads, -1)).flatten(3).mT for m in inputs)
    return of_heads(layer, q, k, v).mT.reshape(inputs[2].shape)


def softmax(_, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def linear(_, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = q.sigmoid() @ k.sigmoid().mT
    return weights @ v / weights.sum(-1, keepdim=True)


def among_heads(of_tokens, layer, q, k, v) -> Tensor:
    """Equations 3 and 4: the heads of a token take the place of the tokens of a head."""
    return of_tokens(layer, *(m.transpose(1, 2) for m in (q, k, v))).transpose(1, 2)


def castling(layer, q, k, v) -> Tensor:
    weights = (q @ k.mT / math.sqrt(q.shape[3])).softmax(-1)
    q, k = F.normalize(q, dim=3), F.normalize(k, dim=3)
    x = v / 2 + q @ k.mT @ v / math.pi
    if layer.training:
        masked = weights * (weights > 0.02)
        assert 0 < masked.count_nonzero() < masked.numel()
        x = x + masked @ v
    near = F.pad(v, (0, 0, 4, 4)).unfold(2, 9, 1)  # (B, M, N, D, 9)
    return F.normalize(x, dim=3) + torch.einsum('bhndi,hi->bhnd', near, layer.conv.weight[:, 0, 0])


def squeeze_excite(layer, query, key, value) -> Tensor:
    out = by_head(linear, layer, query, key, value)
    means = out.unflatten(1, (layer.squeeze.in_features, -1)).mean((2, 3, 4))  # heads or channels
    scores = layer.excite(layer.squeeze(means).relu()).sigmoid()
    return out * scores.repeat_interleave(VALUES // scores.shape[1], dim=1)[..., None, None]


def gated(layer, query, key, value) -> Tensor:
    gates = layer.gate(query).sigmoid().repeat_interleave(VALUES // layer.gate.out_channels, dim=1)
    return by_head(linear, layer, query, key, value) * gates


def hydra(layer, query, key, value) -> Tensor:
    query, key = F.normalize(query, dim=1), F.normalize(key, dim=1)
    query, key = (m.repeat_interleave(VALUES // CHANNELS, dim=1) for m in (query, key))
    return query * (key * value).sum((2, 3), keepdim=True)


def flow(_, q, k, v) -> Tensor:
    q, k = q.sigmoid(), k.sigmoid()
    incoming, outgoing = q @ k.sum(2, keepdim=True).mT, k @ q.sum(2, keepdim=True).mT
    received = q @ (k / outgoing).sum(2, keepdim=True).mT
    given = k @ (q / incoming).sum(2, keepdim=True).mT
    shares = given.clamp(-1, 1).softmax(2) * k.shape[2]
    return q / incoming @ (k.mT @ (v * shares)) * (received * q.shape[2] / k.shape[2]).sigmoid()


def eva(layer, query, key, value) -> Tensor:
    rows, columns = query.shape[2:]

    def group(row: int, column: int, sides: tuple[int, int]) -> list[int]:
        """The tokens in the same tile of these sides."""
        top, left = row // sides[0] * sides[0], column // sides[1] * sides[1]
        return [
            y * columns + x
            for y in range(top, min(top + sides[0], rows))
            for x in range(left, min(left + sides[1], columns))
        ]

    sides = (-(-rows // layer.chunks), -(-columns // layer.chunks))
    starts = [(y, x) for y in range(0, rows, sides[0]) for x in range(0, columns, sides[1])]
    chunks = [group(*start, sides) for start in starts]

    def of_heads(_, q, k, v):
        scale = 1 / math.sqrt(q.shape[3])
        keys, values = [], []
        for chunk in chunks:
            near = k[:, :, chunk]
            summary = layer.key_summary(near.mean(2, keepdim=True))
            center = (layer.query_summary(q[:, :, chunk].mean(2, keepdim=True)) + summary) / 2
            weights = ((near @ center.mT - near.square().sum(3, keepdim=True) / 2) * scale).softmax(
                2
            )
            keys.append(summary)
            values.append(weights.mT @ v[:, :, chunk])
        out = torch.empty_like(v)
        for n in range(rows * columns):
            near = group(n // columns, n % columns, (layer.window, layer.window))
            seen = torch.cat([k[:, :, near], *keys], 2), torch.cat([v[:, :, near], *values], 2)
            out[:, :, n : n + 1] = softmax(None, q[:, :, n : n + 1], *seen)
        return out

    return by_head(of_heads, layer, query, key, value)


NAIVE = dict(
    token_softmax=partial(by_head, softmax), token_linear=partial(by_head, linear),
    head_softmax=partial(by_head, partial(among_heads, softmax)),
    head_linear=partial(by_head, partial(among_heads, linear)),
    castling=partial(by_head, castling), flow=partial(by_head, flow),
    squeeze_excite=squeeze_excite, gated=gated, hydra=hydra, eva=eva,
)  # fmt: skip
OWN = dict(eva=dict(window=3, chunks=2))


@pytest.mark.parametrize(('size', 'head_channels'), [((1, 1), 1), ((5, 3), 12), ((9, 8), None)])
@pytest.mark.parametrize(
    ('name', 'own'),
    [
        *((name, OWN.get(name, {})) for name in NAMES),
        ('squeeze_excite', dict(unit='head')),
        ('gated', dict(unit='head')),
    ],
)
def test_a_mixer_and_its_gradients_equal_those_of_its_equation(name, own, size, head_channels):
    if head_channels and name != 'hydra':
        own = {**own, 'head_channels': head_channels}
    layer, inputs = build(name, **own), [m.requires_grad_() for m in maps(size)]
    found, expected = layer(*inputs), NAIVE[name](layer, *inputs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    leaves = (*inputs, *layer.parameters())
    gradients = (torch.autograd.grad(out.square().sum(), leaves) for out in (found, expected))
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize('name', ['head_softmax', 'head_linear'])
def test_attention_among_heads_may_take_the_place_of_the_values_of_linear_attention(name):
    inputs = maps((3, 4))
    alone, joined = build(name), build(name, mix_tokens=True)
    mixed = build('token_linear')(*inputs[:2], alone(*inputs))
    torch.testing.assert_close(joined(*inputs), mixed)


@torch.no_grad()
def test_castling_adds_large_softmax_weights_in_train_mode_on_request():
    inputs = maps((9, 8), batch=1)
    plain, layer = build('castling'), build('castling', auxiliary=True)
    torch.testing.assert_close(layer(*inputs), plain(*inputs))
    torch.testing.assert_close(plain.train()(*inputs), layer(*inputs))
    torch.testing.assert_close(layer.train()(*inputs), NAIVE['castling'](layer, *inputs))


def test_mixers_of_other_papers_have_as_many_heads_as_what_they_replace():
    found = {name: make(name, 384, 384, 6).head_channels for name in MIXERS}
    others = dict(hydra=None, token_softmax=64, castling=64, eva=64, flow=64)
    assert found == dict.fromkeys(MIXERS, 4) | others
    assert make('flow', 384, 384, 6, head_channels=8).head_channels == 8


@pytest.mark.parametrize('name', ['token_softmax', 'flow', 'hydra'])
def test_queries_may_lie_on_another_grid_than_keys(name):
    layer = build(name)
    query, key, value = maps((4, 6))
    half = query[:, :, ::2, ::2]
    out = layer(half, key, value)
    assert out.shape == (2, VALUES, 2, 3)
    if name != 'flow':  # where what a key gives depends on all queries
        torch.testing.assert_close(out, layer(query, key, value)[:, :, ::2, ::2])


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('offset', [-30.0, 0.0, 30.0])
@pytest.mark.parametrize('name', MIXERS)
def test_half_precision_stays_finite_over_many_tokens(name, offset, dtype):
    layer = make(name, 16, 16, 4).to(dtype)
    query, key, value = (3 * torch.randn(1, 16, 64, 64) - 5 for _ in range(3))
    query += offset
    key[:, :, 0] = 0
    assert layer(*(m.to(dtype) for m in (query, key, value))).isfinite().all()


@torch.no_grad()
def test_the_map_of_hydra_gives_its_output_and_sums_to_cosines():
    layer, (query, key, value) = build('hydra'), maps((3, 4), batch=1)
    for index in (0, 7):
        reading = layer.read_attention((query, key, value), lambda _, index=index: index)
        weights = reading.arrays['weights'].flatten(1).repeat_interleave(VALUES // CHANNELS, dim=0)
        expected = layer(query, key, value).flatten(2)[0, :, index]
        torch.testing.assert_close((weights * value.flatten(2)[0]).sum(1), expected)
        q, k = query.flatten(2)[0, :, index], key.flatten(2)[0]
        cosines = torch.cosine_similarity(q[:, None], k, dim=0)
        torch.testing.assert_close(reading.maps[''].flatten(), cosines)


def test_noise_of_eva_is_added_in_train_mode_only():
    layer, inputs = build('eva', window=2, chunks=2), maps((4, 4))
    torch.testing.assert_close(layer(*inputs), layer(*inputs))
    layer.train()
    assert (layer(*inputs) - layer(*inputs)).abs().max() > 1e-3


@pytest.mark.skipif(
    'prefer_deferred_runtime_asserts_over_guards' not in signature(torch.export.export).parameters,
    reason=f'torch.export of {torch.__version__} guards sizes that the example has',
)
def test_one_graph_of_eva_serves_maps_that_its_tiles_divide_or_not():
    layer, sides = build('eva', window=3, chunks=2), {2: torch.export.Dim.DYNAMIC}
    example = torch.randn(3, 1, CHANNELS, 12, 7, dtype=torch.float64)  # tiles divide its rows
    program = torch.export.export(
        layer,
        tuple(example),
        dynamic_shapes=(sides,) * 3,
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    for rows in (9, 10, 17):
        inputs = torch.randn(3, 1, CHANNELS, rows, 7, dtype=torch.float64)
        torch.testing.assert_close(program.module()(*inputs), layer(*inputs))
