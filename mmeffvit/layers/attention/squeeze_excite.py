"""Linear attention with channels or heads weighted by squeeze and excitation."""

import torch.nn.functional as F
from torch import Tensor, nn

from .token_linear import TokenLinearAttention

UNITS = ('channel', 'head')


def count_units(unit: str, num_channels: int, num_heads: int) -> int:
    """The number of channels or of heads.

    Raises:
        ValueError: If ``unit`` is unknown.
    """
    if unit not in UNITS:
        raise ValueError(f'unit is {unit!r}; choose one of {UNITS}')
    return num_channels if unit == 'channel' else num_heads


class SqueezeExciteAttention(TokenLinearAttention):
    """Squeeze and excitation (arXiv:1709.01507) in place of Mobile-Attention's competition.

    ``y = s * Q (K^T V) / Z`` with ``s = sigmoid(W_2 relu(W_1 z))``, z the means over the tokens.
    The paper (table 2, SE) does not give its position and sizes. As channel attention, it follows
    the mixing, with one weight per channel; optionally one per head, as in the competition.

    Args:
        channels: M D, channels of the queries.
        head_channels: D, channels of q and of k in a head. The value may have another number.
        value_channels: C, channels of the values; None for as many as queries have.
        unit: 'channel', or 'head' for one weight per head, of the mean over its channels.
        reduction: Units per hidden channel between W_1 and W_2; at least one is kept.
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
        value_channels: int | None = None,
        unit: str = 'channel',
        reduction: int = 16,
        kernel: str = 'sigmoid',
        normalizer: str = 'token',
    ) -> None:
        super().__init__(head_channels, kernel=kernel, normalizer=normalizer)
        if reduction < 1:
            raise ValueError(f'reduction is {reduction}; it must be at least 1')
        units = count_units(unit, value_channels or channels, channels // head_channels)
        hidden = max(units // reduction, 1)
        self.squeeze = nn.Linear(units, hidden)
        self.excite = nn.Linear(hidden, units)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        units = mixed.unflatten(1, (self.squeeze.in_features, -1))  # (B, units, C / units, H, W)
        weights = self.excite(F.relu(self.squeeze(units.mean(dim=(2, 3, 4))))).sigmoid()
        return (units * weights[:, :, None, None, None]).flatten(1, 2)
