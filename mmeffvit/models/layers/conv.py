"""Convolutions with norm and activation, and residual convolutions."""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .folding import add_identity


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of each position of a map.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__(channels, eps)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNorm(nn.Sequential):
    """A convolution, padded to keep the size at stride 1, its batch norm and its activation.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 1,  # odd
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,  # of the convolution; some releases have one although a norm follows
        norm_init: float = 1.0,  # of the norm's weight; 0 zero-initializes a residual branch
        act: type[nn.Module] | None = None,
    ) -> None:
        conv = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=kernel_size // 2 * dilation,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        norm = nn.BatchNorm2d(out_channels)
        nn.init.constant_(norm.weight, norm_init)
        super().__init__(OrderedDict(conv=conv, norm=norm))
        if act is not None:
            self.add_module('act', act())

    def folded(self) -> nn.Module:
        conv = fuse_conv_bn_eval(self.conv, self.norm)
        return nn.Sequential(conv, self.act) if hasattr(self, 'act') else conv


class ResidualConvNorm(ConvNorm):
    """A depth-wise :class:`ConvNorm` added to its input: by default, an identity at first.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self, channels: int, norm_init: float = 0.0, dilation: int = 1, kernel_size: int = 3
    ) -> None:
        spatial = dict(dilation=dilation, groups=channels)
        super().__init__(channels, channels, kernel_size, norm_init=norm_init, **spatial)

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)

    def folded(self) -> nn.Module:
        return add_identity(super().folded())


class ConvStem(nn.Sequential):
    """Two convolutions of stride 2, with bias, norm and activation: from the image to stride 4.

    Shape:
        (B, 3, H, W) -> (B, C, ceil(H / 4), ceil(W / 4)).
    """

    def __init__(self, channels: int, act: type[nn.Module]) -> None:
        options = dict(kernel_size=3, stride=2, bias=True, act=act)
        super().__init__(
            ConvNorm(3, channels // 2, **options), ConvNorm(channels // 2, channels, **options)
        )
