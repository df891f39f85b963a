"""Attention among the heads of a token, which Mobile-Attention (ICML 2024) argues against."""

import torch.nn.functional as F
from torch import Tensor

from .heads import HeadMixer, split_heads
from .mobile import Form, features, smallest_divisor
from .token_linear import TokenLinearAttention


class HeadSoftmaxAttention(HeadMixer):
    """Softmax attention among the heads of one token: equation 3 of Mobile-Attention.

    ``R_t^h = sum_i(softmax_i(q_t^h . k_t^i / sqrt(D)) v_t^i)``, i over the M heads of token t: the
    "vanilla design" of table 2. An output depends only on its own token.

    The paper does not say how R is combined with the mixing of tokens. With ``mix_tokens``, R
    replaces the values in linear attention (equation 2), as ``softmax(O') V`` does in equation 7.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.
        mix_tokens: Whether linear attention among the tokens follows, with the sigmoid as Phi.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W and quadratic in M.

    Raises:
        ValueError: If ``head_channels`` is not positive, or the channels of the input are not
            divisible into heads.
    """

    def __init__(self, head_channels: int = 4, *, mix_tokens: bool = False) -> None:
        super().__init__(head_channels)
        self.tokens = TokenLinearAttention(head_channels) if mix_tokens else None

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        heads = split_heads(query, key, value, self.head_channels)
        mixed = self.among_heads(*heads).reshape(value.shape)
        return mixed if self.tokens is None else self.tokens(query, key, mixed)

    def among_heads(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Queries and keys (B, M, D, N), values (B, M, C / M, N) -> (B, M, C / M, N)."""
        tokens = (m.permute(0, 3, 1, 2).contiguous() for m in (query, key, value))
        return F.scaled_dot_product_attention(*tokens).permute(0, 2, 3, 1)


class HeadLinearAttention(HeadSoftmaxAttention):
    """Linear attention among the heads of one token: equation 4 of Mobile-Attention.

    ``R_t^h = Q_t^h sum_i(K_t^i^T v_t^i) / (Q_t^h . sum_j(K_t^j))`` with ``Q = Phi(q)`` and ``K =
    Phi(k)``, i and j over the heads of token t. No row of the paper's tables uses it.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.
        mix_tokens: As in :class:`HeadSoftmaxAttention`, with the same Phi.
        kernel: Phi, as in :class:`MobileAttention`.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W and in M.

    Raises:
        ValueError: If an argument is not one of its choices, or the channels of the input are not
            divisible into heads.
    """

    def __init__(
        self, head_channels: int = 4, *, mix_tokens: bool = False, kernel: str = 'sigmoid'
    ) -> None:
        super().__init__(head_channels)
        self.kernel = Form(kernel=kernel).kernel
        if mix_tokens:
            self.tokens = TokenLinearAttention(head_channels, kernel=kernel)

    def among_heads(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = features(query, self.kernel), features(key, self.kernel)
        shares = (query * key.sum(dim=1, keepdim=True)).sum(dim=2)  # (B, M, N)
        query, key, value = (m.permute(0, 3, 1, 2) for m in (query, key, value))
        context = key.transpose(2, 3) @ value  # (B, N, D, C / M)
        mixed = (query @ context).permute(0, 2, 3, 1)
        return mixed / shares.clamp_min(smallest_divisor(shares.dtype)).unsqueeze(2)

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, kernel={self.kernel!r}'
