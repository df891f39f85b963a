"""A bottleneck with single-head attention, a design that SHViT compares with its own."""

from torch import Tensor, nn

from mmeffvit.layers.conv import ConvNorm

from .reading import Locate, Reading
from .single_head import SingleHeadSelfAttention


class BottleneckAttention(SingleHeadSelfAttention):
    """ResNet's bottleneck with attention in place of its convolution: arXiv:2401.16456, figure 6 a.

    ``y = W_o(relu(softmax(q k^T / sqrt(D)) v))`` with ``q, k, v = W(norm(relu(W_r x)))``: W_r
    contracts C channels to those in attention, W_o expands them to C. There is a batch norm after
    each W, as in the bottleneck of arXiv:1512.03385; the paper gives no more than the figure.

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
