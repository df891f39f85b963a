"""Division of queries, keys and values into heads."""

from torch import Tensor

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.head_outputs import HeadOutputs


def count_heads(query: Tensor, value: Tensor, head_channels: int) -> int:
    """M: every head has ``head_channels`` query channels and an equal part of the values."""
    heads = query.shape[1] // head_channels
    if heads * head_channels != query.shape[1] or value.shape[1] % heads:
        raise ValueError(
            f'queries of {query.shape[1]} and values of {value.shape[1]} channels cannot be '
            f'divided into heads of {head_channels} query channels each'
        )
    return heads


def split_heads(
    query: Tensor, key: Tensor, value: Tensor, head_channels: int
) -> tuple[Tensor, ...]:
    """Queries and keys (B, M, D, N) and values (B, M, C / M, N) of maps, D = ``head_channels``."""
    heads = count_heads(query, value, head_channels)
    return tuple(m.flatten(2).unflatten(1, (heads, -1)) for m in (query, key, value))


class HeadMixer(Attention):
    """A mixer of queries, keys and values in heads, whose outputs are in the map that it returns.

    Args:
        channels: M D, channels of the queries and of the keys.
        value_channels: C, channels of the values.
        num_heads: Heads of the attention that it replaces.
        head_channels: D, channels of q and of k in a head; None for as many heads as that one has.
            The value may have another number: C / M.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels.

    Raises:
        ValueError: If an argument is not one of its choices, or the channels are not divisible into
            heads.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int | None = None,
    ) -> None:
        super().__init__()
        width = channels // num_heads if head_channels is None else head_channels
        if width < 1:
            raise ValueError(f'head_channels is {width}; it must be at least 1')
        if channels % width or value_channels % (channels // width):
            values = f' and {value_channels} of values' if value_channels != channels else ''
            raise ValueError(
                f'head_channels is {width}; choose a divisor of {channels} channels of queries'
                f'{values}'
            )
        self.head_channels = width

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(
            self, lambda inputs: count_heads(inputs[0], inputs[2], self.head_channels)
        )

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}'
