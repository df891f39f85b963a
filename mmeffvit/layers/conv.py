"""Convolutions as the families use them."""

from collections import OrderedDict

from torch import nn


class ConvNorm(nn.Sequential):
    """A convolution without bias, padded to keep the size at stride 1, and its batch norm.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Odd side of the kernel, in pixels.
        stride: Input pixels per output pixel.
        groups: Groups of the convolution.
        norm_init: First value of the batch norm's factors; 0 silences a residual branch.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        norm_init: float = 1.0,
    ) -> None:
        conv = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=kernel_size // 2,
            groups=groups,
            bias=False,
        )
        norm = nn.BatchNorm2d(out_channels)
        nn.init.constant_(norm.weight, norm_init)
        super().__init__(OrderedDict(conv=conv, norm=norm))
