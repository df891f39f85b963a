"""Linear attention whose heads are gated by the queries."""

from torch import Tensor, nn

from .linear import LinearAttention


class GatedAttention(LinearAttention):
    """A gated linear unit (arXiv:1612.08083) in place of Mobile-Attention's competition.

    ``y = sigmoid(W q + b) * Q (K^T V) / Z``: one gate per head and token, as the competition has in
    ``sigmoid(I')``, but learned.

    Args:
        channels: M D, channels of the queries.
        head_channels: D, channels of q and of k in a head. The value may have another number.
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
        kernel: str = 'sigmoid',
        normalizer: str = 'token',
    ) -> None:
        super().__init__(head_channels, kernel=kernel, normalizer=normalizer)
        self.gate = nn.Conv2d(channels, channels // head_channels, 1)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        gates = self.gate(query).sigmoid().unsqueeze(2)  # (B, M, 1, H, W)
        return (mixed.unflatten(1, (gates.shape[1], -1)) * gates).flatten(1, 2)
