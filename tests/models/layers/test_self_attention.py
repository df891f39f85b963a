"""Self-attention between pixels of patches, against equations on tokens sliced from the map."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobilevitv2.ablations import (
    LatentSelfAttention,
    LinformerAttention,
    SampledSelfAttention,
)
from mmeffvit.models.mobilevitv2.attention import (
    KeylessSeparableSelfAttention,
    SeparableSelfAttention,
)
from mmeffvit.models.mobilevitv2.backbone import make_encoder
from mmeffvit.models.swiftformer.ablations import CrossCovarianceAttention, TransposeAttention

CHANNELS, HEADS = 8, 2


def normal(layer: nn.Module) -> nn.Module:
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.double().eval()


def project(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A 1x1 convolution of tokens (T, C)."""
    return x @ conv.weight[:, :, 0, 0].T + conv.bias


def by_sample(layer: nn.Module, x: Tensor, of_tokens) -> Tensor:
    """Run ``of_tokens(tokens, grid)`` on the tokens (T, C) of every sample, and W_o on the rest.

    A sample has the pixels at one position in the patches of an image.
    """
    side, (batch, channels) = layer.patch_size, x.shape[:2]
    samples = F.pixel_unshuffle(x, side).unflatten(1, (channels, -1)).transpose(1, 2).flatten(0, 1)
    mixed = [
        project(layer.out, of_tokens(sample.flatten(1).T, sample.shape[1:])).T for sample in samples
    ]
    out = torch.stack(mixed).view_as(samples).unflatten(0, (batch, -1)).transpose(1, 2)
    return F.pixel_shuffle(out.flatten(1, 2), side)


def attend(*tokens: Tensor) -> Tensor:
    """Attention of queries, keys and values (T, C) in heads."""
    q, k, v = (m.unflatten(1, (HEADS, -1)).transpose(0, 1) for m in tokens)
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)


@torch.no_grad()
@pytest.mark.parametrize(('size', 'patch_size'), [((4, 6), 2), ((3, 5), 1), ((1, 1), 1)])
def test_self_attention_equals_its_equation(size, patch_size):
    layer = normal(SelfAttention(CHANNELS, HEADS, patch_size=patch_size))
    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    expected = by_sample(layer, x, lambda t, _: attend(*project(layer.qkv, t).chunk(3, dim=1)))
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)


def resized(projection: Tensor, grid: tuple[int, int]) -> Tensor:
    """Every row resized like an image, and scaled to the number of tokens: (p, T)."""
    larger = F.interpolate(projection[None], grid, mode='bilinear')[0].flatten(1)
    return larger * projection[0].numel() / larger.shape[1]


@torch.no_grad()
@pytest.mark.parametrize(
    ('size', 'patch_size'), [((6, 4), 2), ((10, 6), 2), ((5, 3), 1), ((1, 1), 1)]
)
def test_linformer_equals_its_equation_at_its_size_and_at_others(size, patch_size):
    options = dict(projected=5, grid=(3, 2), patch_size=patch_size)
    layer = normal(LinformerAttention(CHANNELS, HEADS, **options))

    def of_tokens(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
        query, key, value = project(layer.qkv, tokens).chunk(3, dim=1)
        key = resized(layer.key_projection, grid) @ key
        value = resized(layer.value_projection, grid) @ value
        return attend(query, key, value)

    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), by_sample(layer, x, of_tokens), rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('num_latents', [1, 3])
@pytest.mark.parametrize(('size', 'patch_size'), [((4, 6), 2), ((3, 5), 1)])
def test_several_latents_equal_their_equation(size, patch_size, num_latents):
    layer = normal(LatentSelfAttention(CHANNELS, num_latents, patch_size=patch_size))

    def of_tokens(tokens: Tensor, _: tuple[int, int]) -> Tensor:
        sizes = (num_latents, CHANNELS, CHANNELS)
        logits, key, value = project(layer.qkv, tokens).split(sizes, dim=1)
        contexts = [logits[:, i].softmax(0) @ key for i in range(num_latents)]
        return value.clamp_min(0) * torch.stack(contexts).mean(0)

    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), by_sample(layer, x, of_tokens), rtol=1e-9, atol=1e-12)


def chosen(norms: Tensor, count: int, sampling: str) -> list[int]:
    if sampling == 'top':
        return sorted(sorted(range(len(norms)), key=lambda i: -float(norms[i]))[:count])
    return [i * len(norms) // count for i in range(count)]


def normed(norm: nn.GroupNorm, x: Tensor) -> Tensor:
    """The norm of all tokens (T, C) of an image together."""
    return (x - x.mean()) / (x.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias


@torch.no_grad()
@pytest.mark.parametrize('sampling', ['uniform', 'random', 'top'])
@pytest.mark.parametrize(('pixels', 'patches'), [(1, 1.0), (None, 1.0), (None, 0.34), (2, 0.5)])
def test_a_sampled_encoder_equals_a_loop_over_its_tokens(pixels, patches, sampling):
    options = dict(pixels=pixels, patches=patches, sampling=sampling)
    encoder = normal(make_encoder(CHANNELS, SampledSelfAttention(CHANNELS, **options)))
    layer, (expand, _, contract) = encoder.attention, encoder.feed_forward
    maps = torch.randn(2, CHANNELS, 4, 6, dtype=torch.float64)
    out = maps.clone()
    for image, result in zip(maps, out, strict=True):
        cells = [(2 * (n // 3), 2 * (n % 3)) for n in range(6)]  # top left pixels of the patches
        kept = chosen(
            torch.stack([image[:, y : y + 2, x : x + 2].norm() for y, x in cells]),
            max(round(patches * 6), 1),
            sampling,
        )
        at = [(0, 0), (0, 1), (1, 0), (1, 1)]  # positions in a patch
        norms = torch.stack([image[:, y::2, x::2].norm() for y, x in at])
        own = [at[j] for j in chosen(norms, pixels or 4, sampling)]
        places = [[(cells[n][0] + y, cells[n][1] + x) for n in kept] for y, x in own]
        tokens = torch.stack([image[:, y, x] for row in places for y, x in row])  # (m n, C)
        mixed = []
        for part in normed(encoder.attention_norm, tokens).chunk(len(own)):
            query, key, value = project(layer.qkv, part).split((1, CHANNELS, CHANNELS), dim=1)
            context = (query[:, 0].softmax(0)[:, None] * key).sum(0)
            mixed.append(project(layer.out, value.clamp_min(0) * context))
        tokens = tokens + torch.cat(mixed)
        hidden = project(expand, normed(encoder.feed_forward_norm, tokens))
        tokens = tokens + project(contract, hidden / (1 + (-hidden).exp()))
        for (y, x), token in zip([place for row in places for place in row], tokens, strict=True):
            result[:, y, x] = token
    torch.testing.assert_close(encoder(maps), out, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(encoder(maps), encoder(maps), rtol=0, atol=0)


def test_random_tokens_differ_in_train_mode_alone_and_the_others_pass_unchanged():
    layer = SampledSelfAttention(CHANNELS, pixels=1, patches=0.25, sampling='random')
    encoder, x = make_encoder(CHANNELS, layer), torch.randn(1, CHANNELS, 16, 16)
    kept = {
        tuple((encoder.train()(x) - x)[0, 0].flatten().nonzero().flatten().tolist())
        for _ in range(5)
    }
    assert len(kept) > 1
    assert {len(places) for places in kept} == {16}  # one of four pixels of a quarter of 64 patches
    assert encoder.eval()(x).equal(encoder(x))


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 3)])
def test_cross_covariance_attention_is_that_of_timm(timm, size):
    layer = normal(CrossCovarianceAttention(CHANNELS, HEADS))
    theirs = timm.models.xcit.XCA(CHANNELS, HEADS, qkv_bias=True).double()
    state = {key.replace('out.', 'proj.'): value for key, value in layer.state_dict().items()}
    theirs.load_state_dict({k: v[..., 0, 0] if v.ndim == 4 else v for k, v in state.items()})
    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    expected = theirs(x.flatten(2).mT).mT.unflatten(2, size)
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('softmax_over', ['keys', 'queries'])
@pytest.mark.parametrize('heads', [1, HEADS])
def test_transpose_attention_equals_its_equation(heads, softmax_over):
    layer = normal(TransposeAttention(CHANNELS, heads, softmax_over=softmax_over))
    x = torch.randn(2, CHANNELS, 3, 2, dtype=torch.float64)
    q, k, v = (m.unflatten(1, (heads, -1)).flatten(3) for m in layer.qkv(x).chunk(3, dim=1))
    scores = q @ k.mT / math.sqrt(q.shape[2])  # of channels of queries and of keys: (B, M, D, D)
    scores = scores.softmax(3 if softmax_over == 'keys' else 2)
    expected = layer.out((scores.mT @ v).reshape(x.shape))
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize('layout', [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize('relu', [True, False])
def test_separable_attention_equals_its_equation_with_and_without_keys(relu, layout):
    """Without ReLU, it is equation 3 of SwiftFormer."""
    layer = normal(SeparableSelfAttention(CHANNELS, 1, relu=relu))
    x = torch.randn(2, CHANNELS, 3, 5, dtype=torch.float64).contiguous(memory_format=layout)

    def of_tokens(tokens: Tensor, _: tuple[int, int]) -> Tensor:
        query, key, value = project(layer.qkv, tokens).split((1, CHANNELS, CHANNELS), dim=1)
        weights = query[:, 0].exp() / query[:, 0].exp().sum()
        value = value.clamp_min(0) if relu else value
        return value * sum(weights[n] * key[n] for n in range(len(key)))

    expected = by_sample(layer, x, of_tokens)
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)
    keyless = KeylessSeparableSelfAttention(layer)
    torch.testing.assert_close(keyless(x), expected, rtol=1e-9, atol=1e-12)


def test_without_keys_one_projection_of_the_map_is_left_out():
    channels, patches, positions = 64, 36, 4
    layer, costs = SeparableSelfAttention(channels).eval(), []
    for attention in (layer, KeylessSeparableSelfAttention(layer)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            attention(torch.zeros(1, channels, 12, 12))
        costs.append(counter.get_total_flops() // 2)
    assert costs[0] - costs[1] == channels**2 * (patches - 1) * positions


LAYERS = {
    'self': lambda: SelfAttention(CHANNELS, HEADS, patch_size=2),
    'linformer': lambda: LinformerAttention(CHANNELS, HEADS, grid=(2, 3), patch_size=2),
    'latents': lambda: LatentSelfAttention(CHANNELS, 3),
    'transpose': lambda: TransposeAttention(CHANNELS, HEADS),
    'cross_covariance': lambda: CrossCovarianceAttention(CHANNELS, HEADS),
    'sampled': lambda: make_encoder(
        CHANNELS, SampledSelfAttention(CHANNELS, pixels=2, patches=0.5, sampling='top')
    ),
}


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('name', LAYERS)
def test_half_precision_stays_finite(name, dtype):
    x = 20 * torch.randn(1, CHANNELS, 32, 32)
    x[..., 0] = 0
    assert LAYERS[name]().to(dtype)(x.to(dtype)).isfinite().all()
