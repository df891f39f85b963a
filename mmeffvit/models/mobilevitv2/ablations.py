"""Variants of separable self-attention and its rivals (arXiv:2206.02680)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.self_attention import SelfAttention, from_tokens, to_tokens


class LatentSelfAttention(Attention):
    """Separable self-attention of arXiv:2206.02680 with several latent tokens.

    ``y = W_o(relu(W_v x) * sum_n(s_n W_k x_n))`` with ``s = mean_l(softmax_n(W_l x))``: each of the
    L rows of W_l is a latent token with context scores of its own. Appendix E does not say how
    their context vectors are combined; here they are averaged. With one latent it is
    :class:`SeparableSelfAttention`, with the same weights.

    Args:
        channels: C, channels of the input and of the output.
        num_latents: L, number of latent tokens.
        patch_size: Side of a patch in feature pixels; 1 has one context for the whole map.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost linear in
        H W.

    Raises:
        ValueError: If ``num_latents`` is not positive.
    """

    def __init__(self, channels: int, num_latents: int = 1, *, patch_size: int = 2) -> None:
        super().__init__()
        if num_latents < 1:
            raise ValueError(f'num_latents is {num_latents}; it must be at least 1')
        self.sizes = (num_latents, channels, channels)
        self.patch_size = patch_size
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = to_tokens(self.qkv(x), self.patch_size)
        query, key, value = tokens.split(self.sizes, dim=2)  # (B, P, L, N) and (B, P, C, N)
        scores = query.softmax(dim=-1).mean(dim=2, keepdim=True)  # (B, P, 1, N)
        context = key @ scores.transpose(2, 3)  # (B, P, C, 1)
        mixed = value.relu() * context
        return self.out(from_tokens(mixed, self.patch_size, tuple(x.shape[2:])))


SAMPLINGS = ('uniform', 'random', 'top')


def choose_tokens(norms: Tensor, count: int, sampling: str) -> Tensor:
    """Indices of ``count`` tokens on axis 1, in ascending order.

    Args:
        norms: The norms of the tokens, (B, T, ...).
        count: Number of tokens to choose.
        sampling: 'uniform' at equal distances, 'random', or 'top' by the norm.

    Shape:
        (B, T, ...) -> (B, count, ...).
    """
    if sampling == 'uniform':
        index = torch.arange(count, device=norms.device) * norms.shape[1] // count
        index = index.view(-1, *(1,) * (norms.ndim - 2))
        return index.expand(norms.shape[0], -1, *norms.shape[2:])
    scores = torch.rand_like(norms) if sampling == 'random' else norms
    return scores.topk(count, dim=1).indices.sort(dim=1).values


class SampledSelfAttention(Attention):
    """Separable self-attention with pixel and patch sampling: appendix E of arXiv:2206.02680.

    :class:`SeparableSelfAttention`, with the same weights, among m of the P pixels of each patch,
    or pixels of n of the N patches, or both. Its MACs decrease in proportion. Each patch
    has its own m pixels, and the norm of a patch covers all its pixels.

    The paper does not define the output of the other tokens: here it is zero, so a residual
    connection leaves them unchanged.

    Args:
        channels: C, channels of the input and of the output.
        patch_size: Side of a patch in feature pixels; P is its square.
        pixels: m, from 1 to P; None for P.
        patches: n / N, above 0 and at most 1; n is rounded, and at least 1.
        sampling: 'uniform' takes tokens at equal distances, 'random' random ones in train mode and
            uniform ones in eval mode, 'top' those with the largest L2 norms.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost linear in
        the sampled tokens.

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    def __init__(
        self,
        channels: int,
        patch_size: int = 2,
        *,
        pixels: int | None = None,
        patches: float = 1.0,
        sampling: str = 'uniform',
    ) -> None:
        super().__init__()
        if sampling not in SAMPLINGS:
            raise ValueError(f'sampling is {sampling!r}; choose one of {SAMPLINGS}')
        if pixels is not None and not 1 <= pixels <= patch_size**2:
            raise ValueError(f'pixels is {pixels}; choose 1 to {patch_size**2}')
        if not 0 < patches <= 1:
            raise ValueError(f'patches is {patches}; choose a ratio above 0 and at most 1')
        self.sizes = (1, channels, channels)
        self.patch_size, self.sampling = patch_size, sampling
        self.pixels, self.patches = pixels or patch_size**2, patches
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = to_tokens(x, self.patch_size)  # (B, P, C, N)
        sampling = self.sampling
        if sampling == 'random' and not self.training:
            sampling = 'uniform'
        square = tokens.square()
        pixels = choose_tokens(square.sum(dim=2), self.pixels, sampling).unsqueeze(2)
        count = max(round(self.patches * tokens.shape[3]), 1)
        patches = choose_tokens(square.sum(dim=(1, 2)), count, sampling)[:, None, None]
        pixels = pixels.expand(-1, -1, x.shape[1], -1)  # (B, m, C, N)
        patches = patches.expand(-1, *pixels.shape[1:3], -1)  # (B, m, C, n)
        kept = tokens.gather(1, pixels).gather(3, patches)
        mixed = self.mix(kept.flatten(0, 1).unsqueeze(3)).view(kept.shape)
        mixed = torch.zeros_like(pixels, dtype=mixed.dtype).scatter(3, patches, mixed)
        mixed = torch.zeros_like(tokens, dtype=mixed.dtype).scatter(1, pixels, mixed)
        return from_tokens(mixed, self.patch_size, tuple(x.shape[2:]))

    def mix(self, x: Tensor) -> Tensor:
        """Separable self-attention of all tokens: (B m, C, n, 1) -> the same."""
        query, key, value = self.qkv(x).split(self.sizes, dim=1)
        scores = query.flatten(2).softmax(dim=-1)  # (B m, 1, n)
        context = key.flatten(2) @ scores.transpose(1, 2)  # (B m, C, 1)
        return self.out(value.relu() * context.unsqueeze(3))

    def extra_repr(self) -> str:
        return f'pixels={self.pixels}, patches={self.patches}, sampling={self.sampling!r}'


class LinformerAttention(SelfAttention):
    """Self-attention of arXiv:2006.04768 at linear cost, between pixels of patches.

    ``y = W_o softmax(q (E k)^T / sqrt(D)) F v`` in every head, with ``q, k, v = W x``. E and F
    project the T pixels at one position of all patches to ``projected`` tokens; the heads share
    them.

    The paper's E and F fit one number of tokens. Here they are built for ``grid`` rows and columns
    of patches; for another map, each of their rows is resized bilinearly to its grid and
    multiplied by the ratio of the numbers of tokens, so that a constant map is projected to the
    same values at every size.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels.
        projected: Number of tokens that keys and values are projected to.
        grid: Rows and columns of patches that E and F are built for.
        patch_size: Side of a patch in feature pixels; attention is between pixels at the same
            position of all patches.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost linear in
        H W.

    Raises:
        ValueError: If the channels are not divisible by the number of heads, or ``projected`` or
            ``grid`` is not positive.
    """

    def __init__(
        self,
        channels: int,
        num_heads: int = 4,
        *,
        projected: int = 16,
        grid: tuple[int, int] = (16, 16),
        patch_size: int = 1,
    ) -> None:
        super().__init__(channels, num_heads, patch_size=patch_size)
        if min(projected, *grid) < 1:
            raise ValueError(f'projected is {projected} and grid is {grid}; all must be at least 1')
        self.key_projection, self.value_projection = (
            nn.Parameter(torch.randn(projected, *grid) / math.sqrt(math.prod(grid)))
            for _ in range(2)
        )

    def mix(self, query: Tensor, key: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
        grid = tuple(side // self.patch_size for side in size)
        key = key @ self.resized(self.key_projection, grid)  # (B', M, D, projected)
        value = value @ self.resized(self.value_projection, grid)
        return super().mix(query, key, value, size)

    def resized(self, projection: Tensor, grid: tuple[int, int]) -> Tensor:
        """E or F for a map of ``grid`` patches, (T, projected)."""
        ratio = math.prod(projection.shape[1:]) / (grid[0] * grid[1])
        resized = F.interpolate(projection[None], grid, mode='bilinear')[0]
        return resized.flatten(1).transpose(0, 1) * ratio
