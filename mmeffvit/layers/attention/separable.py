"""Separable self-attention, the token mixer of MobileViTv2 (arXiv:2206.02680)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SeparableSelfAttention(nn.Module):
    """Self-attention at linear cost through one context vector: separable, arXiv:2206.02680.

    ``y = W_o(relu(W_v x) * sum_n(softmax_n(W_i x) * W_k x))``, n over the patches, once for each
    of the P positions inside a patch: tokens of two positions never meet here. As in the official
    code, which has biases; equation 3 of the paper prints W_K for the product ``x W_K``.

    The map is never cut into patches. The scores become P columns, one per position, that are zero
    at the pixels of every other position, and one matrix product gives all P contexts.

    Args:
        channels: C, channels of the input and of the output.
        patch_size: Side of a patch in feature pixels; P is its square.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``.
    """

    own_column: Tensor

    def __init__(self, channels: int, patch_size: int = 2) -> None:
        super().__init__()
        self.sizes = (1, channels, channels)
        self.patch_size = patch_size
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)
        positions = patch_size**2
        own_column = torch.eye(positions).view(patch_size, 1, patch_size, positions)
        self.register_buffer('own_column', own_column, persistent=False)

    def scores(self, query: Tensor) -> Tensor:
        """Context scores: (B, 1, H, W) of logits to (B, P, N), a distribution over N patches."""
        return F.pixel_unshuffle(query, self.patch_size).flatten(2).softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        size, patch = x.shape[2:], self.patch_size
        rows, columns = size[0] // patch, size[1] // patch
        query, key, value = self.qkv(x).split(self.sizes, dim=1)
        scores = self.scores(query).unflatten(2, (rows, columns))  # (B, P, rows, columns)
        scores = F.pixel_shuffle(scores, patch).view(-1, rows, patch, columns, patch, 1)
        scores = scores * self.own_column  # (B, rows, p, columns, p, P)
        context = key.flatten(2) @ scores.view(x.shape[0], -1, patch**2)  # (B, C, P)
        context = context.view(x.shape[0], -1, 1, patch, 1, patch)
        mixed = value.relu().view(*key.shape[:2], rows, patch, columns, patch) * context
        return self.out(mixed.view_as(key))
