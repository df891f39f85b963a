"""Separable self-attention, the token mixer of MobileViTv2 (arXiv:2206.02680)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.reading import Locate, Reading


class SeparableSelfAttention(Attention):
    """Separable self-attention, at linear cost through a context vector: arXiv:2206.02680.

    ``y = W_o(relu(W_v x) * sum_n(softmax_n(W_i x) * W_k x))``, n over the patches, separately for
    each of the P positions inside a patch: tokens at different positions are never mixed here. The
    biases follow the official code; equation 3 of the paper prints W_K for the product ``x
    W_K``.

    The map is not unfolded into patches. The scores form P rows, one per position, that are zero at
    the pixels of all other positions: one matrix product gives all P context vectors, and another
    one distributes them to their pixels.

    Args:
        channels: C, channels of the input and of the output.
        patch_size: Side of a patch in feature pixels; P is its square.
        relu: False for the values as they are, as SwiftFormer (arXiv:2303.15446) prints this
            attention in its equation 3; W_i is then the product of its two projections.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``.
    """

    own_pixels: Tensor

    def __init__(self, channels: int, patch_size: int = 2, *, relu: bool = True) -> None:
        super().__init__()
        self.sizes = (1, channels, channels)
        self.patch_size = patch_size
        self.relu = relu
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)
        positions = patch_size**2
        own_pixels = torch.eye(positions).view(positions, patch_size, patch_size)
        self.register_buffer('own_pixels', own_pixels, persistent=False)

    def scores(self, query: Tensor, own: Tensor) -> Tensor:
        """Context scores: one distribution over the patches for each of the P positions.

        Shape:
            query (B, 1, H, W), logits; own (P, H W), see :meth:`positions` -> (B, P, H W), zero at
            the pixels of other positions.
        """
        return (query.flatten(2) + own.log()).softmax(dim=-1)  # minus infinity elsewhere

    def forward(self, x: Tensor) -> Tensor:
        own = self.positions(*(side // self.patch_size for side in x.shape[2:]))  # (P, H W)
        value, context = self.value_and_context(x, own)
        spread = (context @ own).unflatten(2, x.shape[2:])
        return self.out((value.relu() if self.relu else value) * spread)

    def value_and_context(self, x: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """The values of all pixels, (B, C, H, W), and the P context vectors, (B, C, P)."""
        query, key, value = self.qkv(x).split(self.sizes, dim=1)
        return value, key.flatten(2) @ self.scores(query, own).transpose(1, 2)

    def positions(self, rows: int, columns: int) -> Tensor:
        """Masks of the pixels at each position in their patch: (P, H W) of ones and zeros."""
        own = self.own_pixels[:, None, :, None]  # (P, 1, p, 1, p)
        return own.expand(-1, rows, -1, columns, -1).flatten(1)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Fold the P context scores ``softmax_n(W_i x)`` back into one map.

        Pixel p of patch n gets the score of patch n at position p: the P distributions are
        interleaved, so the folded map sums to P.
        """
        (x,) = inputs
        own = self.positions(*(side // self.patch_size for side in x.shape[2:]))
        query = self.qkv(x).narrow(1, 0, 1)
        folded = self.scores(query, own).sum(dim=1).view(x.shape[2:])
        scores = F.pixel_unshuffle(folded[None], self.patch_size)  # (P, rows, columns)
        arrays = {'scores': scores, 'folded': folded}
        return Reading('separable', 'context scores', {'': folded}, arrays)


class KeylessSeparableSelfAttention(SeparableSelfAttention):
    """Separable self-attention for inference, without computing the keys.

    The scores of a position sum to 1, so its context is ``W_k sum_n(softmax_n(W_i x) * x) + b_k``:
    W_k is applied to P sums instead of every pixel, which saves nearly half the cost of ``qkv``.

    Args:
        layer: The equivalent layer, whose weights it takes.
    """

    @torch.no_grad()
    def __init__(self, layer: SeparableSelfAttention) -> None:
        channels = layer.out.in_channels
        super().__init__(channels, layer.patch_size, relu=layer.relu)
        self.own_pixels, self.out = layer.own_pixels, layer.out
        query, key, value = layer.qkv.weight.split(self.sizes)
        query_bias, key_bias, value_bias = layer.qkv.bias.split(self.sizes)
        self.sizes = (1, channels)
        self.qkv = nn.Conv2d(channels, 1 + channels, 1).to(key)
        self.qkv.weight.copy_(torch.cat((query, value)))
        self.qkv.bias.copy_(torch.cat((query_bias, value_bias)))
        self.key = nn.Linear(channels, channels).to(key)
        self.key.weight.copy_(key.flatten(1))
        self.key.bias.copy_(key_bias)
        self.train(layer.training)

    def value_and_context(self, x: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        query, value = self.qkv(x).split(self.sizes, dim=1)
        sums = x.flatten(2) @ self.scores(query, own).transpose(1, 2)  # (B, C, P)
        return value, self.key(sums.transpose(1, 2)).transpose(1, 2)
