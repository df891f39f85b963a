"""Attention that SHViT is compared with (arXiv:2401.16456)."""

from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import check_heads
from mmeffvit.models.layers.conv import ChannelNorm, ConvNorm
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.reading import Locate, Reading, read_softmax
from mmeffvit.models.layers.self_attention import SelfAttention

from .attention import SingleHeadSelfAttention

NUM_HEADS = 4


class PartialMultiHeadAttention(SingleHeadSelfAttention):
    """Multi-head attention on the first channels, to compare with one head: arXiv:2401.16456.

    Everything but the number of heads equals :class:`SingleHeadSelfAttention`: D channels of q
    and of k in every head, and an equal part of the attended channels as its values.

    Args:
        channels: C, channels of the input and of the output.
        attended: Channels in attention, in [1, C]; C for attention on all of them.
        key_channels: D, channels of q and of k in a head.
        num_heads: Number of heads.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost quadratic in H W.

    Raises:
        ValueError: If the attended channels are not divisible by the number of heads.
    """

    def __init__(
        self, channels: int, attended: int, key_channels: int = 16, num_heads: int = NUM_HEADS
    ) -> None:
        check_heads(attended, num_heads)
        super().__init__(channels, attended, num_heads * key_channels)
        self.num_heads = num_heads
        self.scale = key_channels**-0.5

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        heads = (m.unflatten(1, (self.num_heads, -1)) for m in (query, key, value))
        return super().mix(*heads).flatten(1, 2)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))`` of every head, and draw their mean."""
        (x,) = inputs
        projected = self.qkv(self.norm(x[:, : self.sizes[0]]))
        query, key, _ = projected.split(self.qkv_sizes, dim=1)
        return read_softmax('multi_head', query, key, self.num_heads, locate)

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self.proj, lambda _: self.num_heads, incoming=True, size=self.sizes[0])


class BottleneckAttention(SingleHeadSelfAttention):
    """ResNet's bottleneck with attention in place of its convolution: arXiv:2401.16456, figure 6 a.

    ``y = W_o(relu(softmax(q k^T / sqrt(D)) v))`` with ``q, k, v = W(norm(relu(W_r x)))``: W_r
    contracts C channels to those in attention, W_o expands them to C. There is a batch norm after
    each W, following the bottleneck of arXiv:1512.03385; the paper gives no more than the figure.

    Args:
        channels: C, channels of the input and of the output.
        attended: Channels in attention, in [1, C].
        key_channels: D, channels of q and of k.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost quadratic in H W.
    """

    def __init__(self, channels: int, attended: int, key_channels: int = 16) -> None:
        super().__init__(attended, attended, key_channels)
        self.reduce = ConvNorm(channels, attended, act=nn.ReLU)
        self.proj = ConvNorm(attended, channels, norm_init=0.0)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.reduce(x))

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all."""
        (x,) = inputs
        return super().read_attention((self.reduce(x),), locate)


class FullMultiHeadAttention(nn.Sequential):
    """The attention of ViT on all channels, with a layer norm before it: table 6, row 1.

    Args:
        channels: C, channels of the input and of the output.
        attended: Unused: all channels are attended.
        num_heads: Number of heads.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost quadratic in H W.
    """

    def __init__(self, channels: int, attended: int, num_heads: int = 1) -> None:
        super().__init__(ChannelNorm(channels), SelfAttention(channels, num_heads))


def no_attention(channels: int, attended: int) -> None:
    """Blocks without attention: table 6, row 2."""
