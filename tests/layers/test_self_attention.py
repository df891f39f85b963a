"""Self-attention between sampled tokens, against equations on tokens sliced from the map."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from mmeffvit.layers.attention import (
    LatentSelfAttention,
    LinformerAttention,
    SelfAttention,
    SeparableSelfAttention,
    TransposeAttention,
)
from mmeffvit.layers.attention.patches import from_tokens, to_tokens

CHANNELS, HEADS = 8, 2


def normal(layer: nn.Module) -> nn.Module:
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.double().eval()


def project(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A 1x1 convolution of tokens (T, C)."""
    return x @ conv.weight[:, :, 0, 0].T + conv.bias


def samples(x: Tensor, patch: int, sampling: str) -> Iterator[tuple[Tensor, ...]]:
    """Rows and columns of the tokens in each sample of an image (C, H, W)."""
    rows, columns = (torch.arange(side) for side in x.shape[1:])
    if sampling == 'pixel':
        for row in range(patch):
            for column in range(patch):
                yield torch.meshgrid(rows[row::patch], columns[column::patch], indexing='ij')
    else:
        for some in rows.split(patch):
            for others in columns.split(patch):
                yield torch.meshgrid(some, others, indexing='ij')


def by_sample(layer: nn.Module, x: Tensor, of_tokens) -> Tensor:
    """Run ``of_tokens(tokens, grid)`` on the tokens (T, C) of every sample, and W_o on the rest."""
    out = torch.empty_like(x)
    sampling = getattr(layer, 'sampling', 'pixel')
    for image, result in zip(x, out, strict=True):
        for rows, columns in samples(image, layer.patch_size, sampling):
            tokens = image[:, rows, columns].flatten(1).T
            mixed = project(layer.out, of_tokens(tokens, rows.shape))
            result[:, rows, columns] = mixed.T.unflatten(1, rows.shape)
    return out


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention of tokens (T, C) in heads, one after the other."""
    parts = (m.chunk(HEADS, dim=1) for m in (query, key, value))
    mixed = []
    for q, k, v in zip(*parts, strict=True):
        weights = (torch.einsum('nd,md->nm', q, k) / math.sqrt(q.shape[1])).exp()
        mixed.append(weights @ v / weights.sum(1, keepdim=True))
    return torch.cat(mixed, dim=1)


@torch.no_grad()
@pytest.mark.parametrize('sampling', ['pixel', 'patch'])
@pytest.mark.parametrize(('size', 'patch_size'), [((4, 6), 2), ((3, 5), 1), ((1, 1), 1)])
def test_self_attention_equals_its_equation(size, patch_size, sampling):
    layer = normal(SelfAttention(CHANNELS, HEADS, patch_size=patch_size, sampling=sampling))
    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    expected = by_sample(layer, x, lambda t, _: attend(*project(layer.qkv, t).chunk(3, dim=1)))
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-12)


def resized(projection: Tensor, grid: tuple[int, int]) -> Tensor:
    """Bilinear resizing of every row written out, scaled to the number of tokens: (p, T)."""
    factors = []
    for side, target in zip(projection.shape[1:], grid, strict=True):
        factor = torch.zeros(target, side, dtype=projection.dtype)
        for i in range(target):
            place = min(max((i + 0.5) * side / target - 0.5, 0), side - 1)
            low = min(int(place), max(side - 2, 0))
            factor[i, low] += 1 - (place - low)
            factor[i, min(low + 1, side - 1)] += place - low
        factors.append(factor)
    rows, columns = factors
    larger = torch.einsum('ir,prc,jc->pij', rows, projection, columns)
    return larger.flatten(1) * projection[0].numel() / larger[0].numel()


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


def test_linformer_projects_a_constant_map_to_the_same_values_at_every_size():
    layer = LinformerAttention(CHANNELS, grid=(4, 4))
    sums = [layer.resized(layer.key_projection, grid).sum() for grid in [(4, 4), (8, 8), (4, 12)]]
    torch.testing.assert_close(sums[1], sums[0])
    torch.testing.assert_close(sums[2], sums[0])


@torch.no_grad()
@pytest.mark.parametrize('sampling', ['pixel', 'patch'])
@pytest.mark.parametrize('num_latents', [1, 3])
@pytest.mark.parametrize(('size', 'patch_size'), [((4, 6), 2), ((3, 5), 1)])
def test_several_latents_equal_their_equation(size, patch_size, num_latents, sampling):
    options = dict(patch_size=patch_size, sampling=sampling)
    layer = normal(LatentSelfAttention(CHANNELS, num_latents, **options))

    def of_tokens(tokens: Tensor, _: tuple[int, int]) -> Tensor:
        sizes = (num_latents, CHANNELS, CHANNELS)
        logits, key, value = project(layer.qkv, tokens).split(sizes, dim=1)
        contexts = [logits[:, i].softmax(0) @ key for i in range(num_latents)]
        return value.clamp_min(0) * torch.stack(contexts).mean(0)

    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), by_sample(layer, x, of_tokens), rtol=1e-9, atol=1e-12)


def test_one_latent_is_separable_self_attention_with_its_weights():
    layer = SeparableSelfAttention(CHANNELS).double()
    latent = LatentSelfAttention(CHANNELS).double()
    latent.load_state_dict(layer.state_dict())
    x = torch.randn(2, CHANNELS, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(latent(x), layer(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('sampling', ['pixel', 'patch'])
def test_tokens_return_to_their_places(sampling):
    x = torch.randn(2, 3, 6, 4)
    tokens = to_tokens(x, 2, sampling)
    assert tokens.shape == ((8, 3, 6) if sampling == 'pixel' else (12, 3, 4))
    assert torch.equal(from_tokens(tokens, 2, sampling, (6, 4)), x)


@torch.no_grad()
@pytest.mark.parametrize('size', [(1, 1), (5, 3)])
def test_transpose_attention_equals_its_equation(size):
    layer = normal(TransposeAttention(CHANNELS, HEADS))
    x = torch.randn(2, CHANNELS, *size, dtype=torch.float64)
    for image, found in zip(x, layer(x), strict=True):
        query, key, value = project(layer.qkv, image.flatten(1).T).chunk(3, dim=1)
        query, key = (m / m.square().sum(0, keepdim=True).sqrt() for m in (query, key))
        heads = [m.chunk(HEADS, dim=1) for m in (query, key, value)]
        mixed = []
        for head, (q, k, v) in enumerate(zip(*heads, strict=True)):
            weights = (torch.einsum('nd,ne->de', q, k) * layer.temperature[head, 0, 0]).exp()
            mixed.append(torch.einsum('de,ne->nd', weights / weights.sum(1, keepdim=True), v))
        expected = project(layer.out, torch.cat(mixed, dim=1)).T.unflatten(1, size)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


LAYERS = {
    'self': lambda: SelfAttention(CHANNELS, HEADS, patch_size=2),
    'linformer': lambda: LinformerAttention(CHANNELS, HEADS, grid=(2, 3), patch_size=2),
    'latents': lambda: LatentSelfAttention(CHANNELS, 3),
    'transpose': lambda: TransposeAttention(CHANNELS, HEADS),
}


@pytest.mark.parametrize('name', LAYERS)
def test_gradients_reach_the_input_and_every_parameter(name):
    layer = LAYERS[name]()
    x = torch.randn(1, CHANNELS, 4, 6, requires_grad=True)
    layer(x).square().sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() > 0


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('name', LAYERS)
def test_half_precision_stays_finite(name, dtype):
    x = 20 * torch.randn(1, CHANNELS, 32, 32)
    x[..., 0] = 0
    assert LAYERS[name]().to(dtype)(x.to(dtype)).isfinite().all()


@pytest.mark.parametrize(
    ('build', 'named'),
    [
        (lambda: SelfAttention(10, 4), '10 channels are not divisible into 4 heads'),
        (lambda: TransposeAttention(10, 4), '10 channels are not divisible into 4 heads'),
        (lambda: SelfAttention(8, sampling='row'), r"'row'; choose one of \('pixel', 'patch'\)"),
        (lambda: LatentSelfAttention(8, sampling='row'), "sampling is 'row'; choose one of"),
        (lambda: LatentSelfAttention(8, 0), 'num_latents is 0; it starts at 1'),
        (lambda: LinformerAttention(8, projected=0), r'projected is 0 and grid is \(16, 16\)'),
    ],
)
def test_bad_arguments_are_named(build, named):
    with pytest.raises(ValueError, match=named):
        build()
