"""Multi-head self-attention on a map or on its patches, the baseline of two papers."""

import torch.nn.functional as F
from torch import Tensor, nn

from .base_attention import Attention, check_heads
from .head_outputs import HeadOutputs


def to_tokens(x: Tensor, patch_size: int) -> Tensor:
    """The pixels of a map by their position in a patch, P, and by patch, N, in row-major order.

    Shape:
        (B, C, H, W), sides divisible by ``patch_size`` -> (B, P, C, N).
    """
    tokens = F.pixel_unshuffle(x, patch_size).unflatten(1, (x.shape[1], -1))  # (B, C, P, H', W')
    return tokens.transpose(1, 2).flatten(3)


def from_tokens(x: Tensor, patch_size: int, size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`to_tokens` for a map of ``size``."""
    grid = [side // patch_size for side in size]
    return F.pixel_shuffle(x.transpose(1, 2).flatten(1, 2).unflatten(2, grid), patch_size)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``softmax(q k^T / sqrt(D)) v`` in every head, without storing the scores.

    Shape:
        (B, M, D, N'), (B, M, D, N), (B, M, C, N) -> (B, M, C, N').
    """
    # strided queries and keys would make the kernel five times slower
    tokens = (m.transpose(2, 3).contiguous() for m in (query, key, value))
    return F.scaled_dot_product_attention(*tokens).transpose(2, 3)


class SelfAttention(Attention):
    """Multi-head self-attention of arXiv:1706.03762 between pixels of patches.

    ``y = W_o softmax(q k^T / sqrt(D)) v`` in every head, with ``q, k, v = W x``, between the pixels
    at the same position of all patches. This is the baseline of SwiftFormer (arXiv:2303.15446),
    where a patch is a pixel, and of MobileViTv2 (arXiv:2206.02680), which replaces it in
    MobileViT (arXiv:2110.02178).

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels.
        patch_size: Side of a patch in feature pixels; 1 attends between all pixels of the map.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost quadratic
        in the number of patches.

    Raises:
        ValueError: If the channels are not divisible by the number of heads.
    """

    def __init__(self, channels: int, num_heads: int = 4, *, patch_size: int = 1) -> None:
        super().__init__()
        check_heads(channels, num_heads)
        self.num_heads = num_heads
        self.patch_size = patch_size
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = to_tokens(self.qkv(x), self.patch_size)  # (B, P, 3 C, N)
        # (B P, M, D, N) each
        query, key, value = tokens.flatten(0, 1).unflatten(1, (3, self.num_heads, -1)).unbind(1)
        mixed = self.mix(query, key, value, tuple(x.shape[2:])).flatten(1, 2)
        mixed = mixed.unflatten(0, (-1, self.patch_size**2))  # (B, P, C, N)
        return self.out(from_tokens(mixed, self.patch_size, tuple(x.shape[2:])))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
        """Attention in every head of a map of ``size``: (B P, M, D, N) -> the same."""
        return attend(query, key, value)

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self.out, lambda _: self.num_heads, incoming=True)
