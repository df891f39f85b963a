"""Linformer's self-attention: keys and values projected to few tokens (arXiv:2006.04768)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .self_attention import SelfAttention


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
