"""Division of queries, keys and values into heads."""

from torch import Tensor, nn

from mmeffvit.models.layers.head_outputs import HeadOutputs


def count_heads(query: Tensor, value: Tensor, head_channels: int) -> int:
    """M: every head has ``head_channels`` query channels and an equal part of the values.

    Raises:
        ValueError: If the channels are not divisible.
    """
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


class HeadMixer(nn.Module):
    """A mixer of queries, keys and values in heads, whose outputs are in the map that it returns.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.

    Raises:
        ValueError: If ``head_channels`` is not positive.
    """

    def __init__(self, head_channels: int = 4) -> None:
        super().__init__()
        if head_channels < 1:
            raise ValueError(f'head_channels is {head_channels}; it must be at least 1')
        self.head_channels = head_channels

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(
            self, lambda inputs: count_heads(inputs[0], inputs[2], self.head_channels)
        )

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}'
