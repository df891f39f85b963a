"""Variants of separable self-attention and its rivals (arXiv:2206.02680)."""

import math
from collections.abc import Callable

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


class SampledSelfAttention(LatentSelfAttention):
    """Separable self-attention of sampled pixels and patches: appendix E of arXiv:2206.02680.

    :class:`SeparableSelfAttention`, with the same weights, whose encoder works on m of the P pixels
    of each patch, or on n of the N patches, or both: attention and feed-forward, whose MACs
    decrease in proportion. The m positions are the same in all patches, since attention is among
    the pixels at one position.

    The paper does not define the output of the other tokens: here they pass unchanged.

    Args:
        channels: C, channels of the input and of the output.
        patch_size: Side of a patch in feature pixels; P is its square.
        pixels: m, from 1 to P; None for P.
        patches: n / N, above 0 and at most 1; n is rounded, and at least 1.
        sampling: 'uniform' takes tokens at equal distances, 'random' random ones in train mode and
            uniform ones in eval mode, 'top' those with the largest L2 norms.

    Shape:
        Of the sampled tokens: (B, C, m, n) -> (B, C, m, n), at a cost linear in their number.

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
        super().__init__(channels, patch_size=patch_size)
        if sampling not in SAMPLINGS:
            raise ValueError(f'sampling is {sampling!r}; choose one of {SAMPLINGS}')
        if pixels is not None and not 1 <= pixels <= patch_size**2:
            raise ValueError(f'pixels is {pixels}; choose 1 to {patch_size**2}')
        if not 0 < patches <= 1:
            raise ValueError(f'patches is {patches}; choose a ratio above 0 and at most 1')
        self.pixels, self.patches, self.sampling = pixels or patch_size**2, patches, sampling

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).split(self.sizes, dim=1)
        context = (query.softmax(dim=-1) * key).sum(dim=-1, keepdim=True)  # (B, C, m, 1)
        return self.out(value.relu() * context)

    def replace_sample(self, x: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
        """A map (B, C, H, W) with the sampled tokens replaced by ``encode`` of them."""
        tokens = to_tokens(x, self.patch_size).transpose(1, 2)  # (B, C, P, N)
        square = tokens.square()
        pixels = self.choose(square.sum(dim=(1, 3)), self.pixels)  # (B, m)
        count = max(round(self.patches * tokens.shape[3]), 1)
        patches = self.choose(square.sum(dim=(1, 2)), count)  # (B, n)
        pixels = pixels[:, None, :, None].expand(-1, x.shape[1], -1, tokens.shape[3])
        patches = patches[:, None, None].expand(-1, *pixels.shape[1:3], -1)
        kept = tokens.gather(2, pixels)
        encoded = encode(kept.gather(3, patches)).to(x.dtype)  # (B, C, m, n)
        tokens = tokens.scatter(2, pixels, kept.scatter(3, patches, encoded))
        return from_tokens(tokens.transpose(1, 2), self.patch_size, tuple(x.shape[2:]))

    def choose(self, norms: Tensor, count: int) -> Tensor:
        """Indices of ``count`` tokens in ascending order: (B, T) -> (B, count)."""
        if self.sampling == 'uniform' or (self.sampling == 'random' and not self.training):
            index = torch.arange(count, device=norms.device) * norms.shape[1] // count
            return index.expand(norms.shape[0], -1)
        scores = torch.rand_like(norms) if self.sampling == 'random' else norms
        return scores.topk(count, dim=1).indices.sort(dim=1).values

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
    same values where a side is halved or doubled.

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
