"""Token mixers that replace Mobile-Attention, each against its equation token by token."""

import math
from functools import partial
from inspect import signature

import pytest
import torch
from torch import Tensor, nn

from mmeffvit.models.layers.choice import choose
from mmeffvit.models.mobile_attention.mixers import MIXERS

SIZES = [(1, 1), (5, 3), (9, 8)]
CHANNELS, VALUES = 12, 24
NAMES = [name for name in MIXERS if name != 'mobile']  # has tests of its own


def make(name: str, channels: int, value_channels: int, num_heads: int, **own) -> nn.Module:
    chosen = choose(dict(type=name, **own), MIXERS, num_sizes=3)
    return chosen(channels, value_channels, num_heads).eval()


def build(name: str, **own) -> nn.Module:
    torch.manual_seed(1)
    layer = make(name, CHANNELS, VALUES, CHANNELS // 4, **own).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def maps(size: tuple[int, int], batch: int = 2) -> list[Tensor]:
    return [torch.randn(batch, c, *size, dtype=torch.float64) for c in (CHANNELS, CHANNELS, VALUES)]


def loop(
    of_head, layer: nn.Module, query: Tensor, key: Tensor, value: Tensor, heads: int
) -> Tensor:
    """Run ``of_head(q, k, v, h)`` on tokens (N, D) of every image and head."""
    out = torch.empty_like(value)
    for b in range(len(query)):
        parts = [m[b].flatten(1).chunk(heads) for m in (query, key, value, out)]
        for h, (q, k, v, o) in enumerate(zip(*parts, strict=True)):
            o.copy_(of_head(q.T, k.T, v.T, h).T)
    return out


def token_softmax(layer, query, key, value) -> Tensor:
    def of_head(q, k, v, _):
        weights = torch.einsum('nd,md->nm', q, k).div(math.sqrt(q.shape[1])).exp()
        return torch.einsum('nm,mc->nc', weights, v) / weights.sum(1, keepdim=True)

    return loop(of_head, layer, query, key, value, CHANNELS // layer.head_channels)


def token_linear(layer, query, key, value) -> Tensor:
    def of_head(q, k, v, _):
        weights = torch.einsum('nd,md->nm', 1 / (1 + (-q).exp()), 1 / (1 + (-k).exp()))
        return torch.einsum('nm,mc->nc', weights, v) / weights.sum(1, keepdim=True)

    return loop(of_head, layer, query, key, value, CHANNELS // layer.head_channels)


def among_heads(weigh, layer, query, key, value) -> Tensor:
    """Equations 3 and 4: the (M, M) weights of one token after the other."""
    heads, out = CHANNELS // layer.head_channels, torch.empty_like(value)
    for b in range(len(query)):
        for y in range(query.shape[2]):
            for x in range(query.shape[3]):
                q, k, v = (m[b, :, y, x].view(heads, -1) for m in (query, key, value))
                rows = []
                for h in range(heads):
                    weights = torch.stack([weigh(q[h], k[i]) for i in range(heads)])
                    rows.append(sum(weights[i] * v[i] for i in range(heads)) / weights.sum())
                out[b, :, y, x] = torch.cat(rows)
    return out


def of_softmax(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k / math.sqrt(len(q))).exp()


def of_sigmoids(q: Tensor, k: Tensor) -> Tensor:
    return (1 / (1 + (-q).exp())) @ (1 / (1 + (-k).exp()))


def castling(layer, query, key, value) -> Tensor:
    filters = layer.conv.weight[:, 0, 0]

    def of_head(q, k, v, h):
        q, k = (m / m.square().sum(1, keepdim=True).sqrt() for m in (q, k))
        out = torch.empty_like(v)
        for n in range(len(v)):
            x = v[n] / 2 + sum((q[n] @ k[m]) * v[m] for m in range(len(v))) / math.pi
            near = [(n + i - 4, i) for i in range(9) if 0 <= n + i - 4 < len(v)]
            local = sum(filters[h, i] * v[m] for m, i in near)
            out[n] = x / x.square().sum().sqrt() + local
        return out

    return loop(of_head, layer, query, key, value, CHANNELS // layer.head_channels)


def squeeze_excite(layer, query, key, value) -> Tensor:
    out = token_linear(layer, query, key, value)
    for image in out:
        parts = image.chunk(layer.squeeze.in_features)  # heads, or channels
        means = torch.stack([part.mean() for part in parts])
        hidden = (layer.squeeze.weight @ means + layer.squeeze.bias).clamp_min(0)
        scores = layer.excite.weight @ hidden + layer.excite.bias
        for part, score in zip(parts, scores, strict=True):
            part.mul_(1 / (1 + (-score).exp()))
    return out


def gated(layer, query, key, value) -> Tensor:
    out = token_linear(layer, query, key, value)
    weight, bias = layer.gate.weight[:, :, 0, 0], layer.gate.bias
    gates = torch.einsum('hc,bcyx->bhyx', weight, query) + bias[:, None, None]
    for h, part in enumerate(out.chunk(len(weight), dim=1)):
        part.mul_(1 / (1 + (-gates[:, h, None]).exp()))
    return out


def hydra(layer, query, key, value) -> Tensor:
    query, key = (m / m.square().sum(1, keepdim=True).sqrt() for m in (query, key))
    query, key = (m.repeat_interleave(VALUES // CHANNELS, dim=1) for m in (query, key))
    return query * (key * value).sum((2, 3), keepdim=True)


def flow(layer, query, key, value) -> Tensor:
    def of_head(q, k, v, _):
        q, k = 1 / (1 + (-q).exp()), 1 / (1 + (-k).exp())
        incoming, outgoing = q @ k.sum(0), k @ q.sum(0)
        received = q @ (k / outgoing[:, None]).sum(0)
        given = k @ (q / incoming[:, None]).sum(0)
        shares = given.clamp(-1, 1).exp()
        value = v * (shares / shares.sum() * len(k))[:, None]
        mixed = torch.einsum('nd,md,mc->nc', q / incoming[:, None], k, value)
        return mixed / (1 + (-received * len(q) / len(k)).exp())[:, None]

    return loop(of_head, layer, query, key, value, CHANNELS // layer.head_channels)


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

    def of_head(q, k, v, _):
        scale = 1 / math.sqrt(q.shape[1])
        keys, values = [], []
        for chunk in chunks:
            summary = layer.key_summary(k[chunk].mean(0))
            center = (layer.query_summary(q[chunk].mean(0)) + summary) / 2
            weights = ((k[chunk] @ center - (k[chunk] ** 2).sum(1) / 2) * scale).exp()
            keys.append(summary)
            values.append((weights[:, None] * v[chunk]).sum(0) / weights.sum())
        out = torch.empty_like(v)
        for n in range(rows * columns):
            near = group(n // columns, n % columns, (layer.window, layer.window))
            all_keys = torch.cat([k[near], torch.stack(keys)])
            weights = (all_keys @ q[n] * scale).exp()
            out[n] = weights @ torch.cat([v[near], torch.stack(values)]) / weights.sum()
        return out

    return loop(of_head, layer, query, key, value, CHANNELS // layer.head_channels)


NAIVE = dict(
    token_softmax=token_softmax, token_linear=token_linear, castling=castling,
    head_softmax=partial(among_heads, of_softmax), head_linear=partial(among_heads, of_sigmoids),
    squeeze_excite=squeeze_excite, gated=gated, hydra=hydra,
    eva=eva, flow=flow,
)  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('name', NAMES)
def test_a_mixer_equals_its_equation(name, size):
    own = dict(window=3, chunks=2) if name == 'eva' else {}
    layer, inputs = build(name, **own), maps(size)
    expected = NAIVE[name](layer, *inputs)
    torch.testing.assert_close(layer(*inputs), expected, rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('name', ['squeeze_excite', 'gated'])
def test_channel_attention_by_head_equals_its_equation(name):
    layer, inputs = build(name, unit='head'), maps((5, 3))
    expected = NAIVE[name](layer, *inputs)
    torch.testing.assert_close(layer(*inputs), expected, rtol=1e-9, atol=1e-12)


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
    assert torch.allclose(plain.train()(*inputs), plain.eval()(*inputs))
    query, key, value = (m.unflatten(1, (CHANNELS // 4, -1)).flatten(3) for m in inputs)
    weights = (query.transpose(2, 3) @ key / 2).softmax(-1)
    masked = weights * (weights > 0.02)
    assert 0 < masked.count_nonzero() < masked.numel()
    q, k = (m / m.norm(dim=2, keepdim=True) for m in (query, key))
    x = value / 2 + value @ (q.transpose(2, 3) @ k).transpose(2, 3) / math.pi
    x = x + value @ masked.transpose(2, 3)
    expected = x / x.norm(dim=2, keepdim=True) + layer.conv(value)
    torch.testing.assert_close(layer.train()(*inputs), expected.reshape(inputs[2].shape))


def test_mixers_of_other_papers_have_as_many_heads_as_what_they_replace():
    found = {name: make(name, 384, 384, 6).head_channels for name in MIXERS}
    others = dict(hydra=None, token_softmax=64, castling=64, eva=64, flow=64)
    assert found == dict.fromkeys(MIXERS, 4) | others
    assert make('flow', 384, 384, 6, head_channels=8).head_channels == 8


@pytest.mark.parametrize('name', [name for name in MIXERS if name != 'hydra'])
def test_any_head_dimension_works(name):
    for head_channels in (1, 2, 64):
        layer = make(name, 64, 128, 1, head_channels=head_channels)
        out = layer(*torch.randn(2, 1, 64, 4, 5), torch.randn(1, 128, 4, 5))
        assert out.shape == (1, 128, 4, 5)
        assert out.isfinite().all()


@pytest.mark.parametrize('name', MIXERS)
def test_gradients_reach_every_input_and_parameter(name):
    # several hidden units: a single one may be negative, and a ReLU would block its gradient
    layer = build(name, **(dict(reduction=1) if name == 'squeeze_excite' else {})).train()
    inputs = [m.requires_grad_() for m in maps((9, 8), batch=1)]
    layer(*inputs).square().sum().backward()
    for tensor in (*inputs, *layer.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() > 0


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
    class Attended(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eva = build('eva', window=3, chunks=2)

        def forward(self, x: Tensor) -> Tensor:
            return self.eva(x, x, x)

    layer, sides = Attended(), {2: torch.export.Dim.DYNAMIC}
    example = torch.randn(1, CHANNELS, 12, 7, dtype=torch.float64)  # tiles divide its rows
    program = torch.export.export(
        layer,
        (example,),
        dynamic_shapes=(sides,),
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    for rows in (9, 10, 17):
        x = torch.randn(1, CHANNELS, rows, 7, dtype=torch.float64)
        torch.testing.assert_close(program.module()(x), layer(x))


@pytest.mark.parametrize(
    ('attention', 'named'),
    [
        ('talking', r"'talking'; choose one of \('mobile', 'token_softmax', 'token_linear'"),
        (dict(window=3), r"\{'window': 3\}; choose one of"),
        (dict(type='hydra', head_channels=8), "head_channels is 8: attention='hydra' takes no"),
        (dict(type='flow', kernel='sigmoid'), "kernel is 'sigmoid': attention='flow'"),
        (dict(type='eva', side=3), "side is 3: attention='eva' takes head_channels, window, c"),
        (dict(type='eva', window=0), 'window is 0 and chunks is 7; both must be at least 1'),
        (dict(type='squeeze_excite', reduction=0), 'reduction is 0; it must be at least 1'),
        (dict(type='token_softmax', head_channels=0), 'head_channels is 0; it must be at least 1'),
        (dict(type='gated', unit='map'), r"unit is 'map'; choose one of \('channel', 'head'\)"),
    ],
)
def test_bad_arguments_are_named_with_their_choices(attention, named):
    with pytest.raises(ValueError, match=named):
        choose(attention, MIXERS, num_sizes=3)(CHANNELS, CHANNELS, 3)


@pytest.mark.parametrize('name', [name for name in MIXERS if name != 'hydra'])
def test_heads_that_do_not_divide_the_channels_are_named_when_a_mixer_is_built(name):
    for options, channels, value_channels in ((5, 12, 12), (24, 12, 12), (4, 12, 13)):
        with pytest.raises(ValueError, match=f'{options}'):
            make(name, channels, value_channels, 1, head_channels=options)


@pytest.mark.parametrize('name', MIXERS)
def test_channels_that_do_not_divide_into_heads_are_named(name):
    query, value = torch.zeros(1, 12, 2, 2), torch.zeros(1, 13, 2, 2)
    with pytest.raises(ValueError, match='queries of 12 and values of 13 channels'):
        make(name, 12, 12, 3)(query, query, value)
