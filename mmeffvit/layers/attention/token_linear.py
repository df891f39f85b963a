"""Linear attention among tokens: Mobile-Attention (ICML 2024) without its competition."""

from .mobile import MobileAttention


class TokenLinearAttention(MobileAttention):
    """Linear attention of arXiv:2006.16236 in heads, equation 2 of Mobile-Attention.

    ``y = Q (K^T V) / Z`` with ``Q = Phi(q)`` and ``K = Phi(k)`` in every head: Mobile-Attention
    with ``competition=False``, and therefore with its Phi.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.
        kernel: Phi, as in :class:`MobileAttention`.
        normalizer: Z, as in :class:`MobileAttention`; 'token' is linear attention's.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W.

    Raises:
        ValueError: If an argument is not one of its choices, or the channels of the input are not
            divisible into heads.
    """

    def __init__(
        self, head_channels: int = 4, *, kernel: str = 'sigmoid', normalizer: str = 'token'
    ) -> None:
        super().__init__(head_channels, kernel=kernel, normalizer=normalizer, competition=False)
