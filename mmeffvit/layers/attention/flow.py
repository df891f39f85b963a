"""Flow-Attention: linear attention with competing and gated tokens (arXiv:2202.06258)."""

import torch
from torch import Tensor

from .heads import HeadMixer, split_heads


def inner(x: Tensor, vector: Tensor) -> Tensor:
    """Inner product over the channels, positive: (B, M, D, N), (B, M, D, 1) -> (B, M, 1, N)."""
    # the sigmoid of a large negative number is zero in float16
    return (x * vector).sum(dim=2, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)


class FlowAttention(HeadMixer):
    """Flow-Attention of arXiv:2202.06258: the flows of Mobile-Attention, over tokens.

    With ``Q = sigmoid(q)`` and ``K = sigmoid(k)`` in every head, n over the N' queries and m over
    the N keys::

        I  = Q . sum_m(K)         O  = K . sum_n(Q)         what a sink receives and a source gives
        I' = Q . sum_m(K / O)     O' = K . sum_n(Q / I)     the same, the other side normalized
        y  = sigmoid(I' N' / N) * Q (K^T (N softmax_m(O') * V)) / I

    As in the authors' code, O' is clipped to [-1, 1], its softmax is multiplied by N and I' by N' /
    N; the code's epsilon of 1e-6 is omitted, since sigmoids are positive.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.

    Shape:
        query (B, M D, H', W'), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H', W'), with M
        heads of D channels; at a cost linear in H W.

    Raises:
        ValueError: If ``head_channels`` is not positive, or the channels of the input are not
            divisible into heads.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        query, key, value = split_heads(query, key, value, self.head_channels)
        query, key = query.sigmoid(), key.sigmoid()
        # means over tokens instead of sums: the same ratios, without overflow in half precision
        incoming = inner(query, key.mean(dim=-1, keepdim=True))  # I / N
        outgoing = inner(key, query.mean(dim=-1, keepdim=True))  # O / N'
        received = inner(query, (key / outgoing).mean(dim=-1, keepdim=True))  # I' N' / N
        share = query.shape[3] / key.shape[3]
        given = inner(key, (query / incoming).mean(dim=-1, keepdim=True)) * share  # O'
        weights = given.clamp(-1, 1).softmax(dim=-1)  # already divided by N, as I is
        context = (value * weights) @ key.transpose(2, 3)  # (B, M, C / M, D)
        mixed = context @ (query / incoming) * received.sigmoid()
        return mixed.flatten(1, 2).unflatten(2, size)
