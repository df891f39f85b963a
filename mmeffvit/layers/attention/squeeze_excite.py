"""Linear attention whose heads are weighted by squeeze and excitation."""

import torch.nn.functional as F
from torch import Tensor, nn

from .linear import LinearAttention


class SqueezeExciteAttention(LinearAttention):
    """Squeeze and excitation (arXiv:1709.01507) in place of Mobile-Attention's competition.

    ``y = s * Q (K^T V) / Z`` with ``s = sigmoid(W_2 relu(W_1 z))``, z the means of the heads over
    their tokens and channels: one weight per head and image, as the competition has one per head
    and token.

    Args:
        channels: M D, channels of the queries.
        head_channels: D, channels of q and of k in a head. The value may have another number.
        reduction: Heads per hidden channel between W_1 and W_2; at least one is kept.
        kernel: Phi, as in :class:`MobileAttention`.
        normalizer: Z, as in :class:`MobileAttention`.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W.

    Raises:
        ValueError: If an argument is not one of its choices, or the channels of the input are not
            divisible into heads.
    """

    def __init__(
        self,
        channels: int,
        head_channels: int = 4,
        *,
        reduction: int = 4,
        kernel: str = 'sigmoid',
        normalizer: str = 'token',
    ) -> None:
        super().__init__(head_channels, kernel=kernel, normalizer=normalizer)
        if reduction < 1:
            raise ValueError(f'reduction is {reduction}; it starts at 1')
        heads = channels // head_channels
        hidden = max(heads // reduction, 1)
        self.squeeze = nn.Linear(heads, hidden)
        self.excite = nn.Linear(hidden, heads)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        heads = mixed.unflatten(1, (self.num_heads(query, value), -1))  # (B, M, C / M, H, W)
        weights = self.excite(F.relu(self.squeeze(heads.mean(dim=(2, 3, 4))))).sigmoid()
        return (heads * weights[:, :, None, None, None]).flatten(1, 2)
