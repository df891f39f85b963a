"""Linear attention with channels or heads gated by the queries."""

from torch import Tensor, nn

from .squeeze_excite import count_units
from .token_linear import TokenLinearAttention


class GatedAttention(TokenLinearAttention):
    """A gated linear unit (arXiv:2002.05202) in place of Mobile-Attention's competition.

    ``y = sigmoid(W q + b) * Q (K^T V) / Z``: a gate per channel and token, at the cost N C^2 that
    table 2 states. The paper does not specify the input of the gates; here it is the queries, a
    linear map of the layer's input. Optionally there is one gate per head, as in the competition.

    Args:
        channels: M D, channels of the queries.
        head_channels: D, channels of q and of k in a head. The value may have another number.
        value_channels: C, channels of the values; None for as many as queries have.
        unit: 'channel', or 'head' for one gate per head.
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
        kernel: str = 'sigmoid',
        normalizer: str = 'token',
    ) -> None:
        super().__init__(head_channels, kernel=kernel, normalizer=normalizer)
        units = count_units(unit, value_channels or channels, channels // head_channels)
        self.gate = nn.Conv2d(channels, units, 1)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        gates = self.gate(query).sigmoid().unsqueeze(2)  # (B, units, 1, H, W)
        return (mixed.unflatten(1, (gates.shape[1], -1)) * gates).flatten(1, 2)
