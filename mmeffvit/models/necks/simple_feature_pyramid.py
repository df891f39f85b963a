"""A feature pyramid from the only map of a plain backbone."""

from collections.abc import Sequence

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmeffvit.models.layers.conv import ChannelNorm
from mmeffvit.registries import MODELS


@MODELS.register_module()
class SimpleFeaturePyramid(BaseModule):
    """Simple feature pyramid (arXiv:2203.16527): levels at strides 4, 8, 16 and 32 from one map.

    Two transposed convolutions, one, none and max pooling change the resolution of the map at
    stride 16; a 1x1 and a 3x3 convolution, each followed by a layer norm, give a level its
    channels. There is no top-down path. Further levels are every second cell of the one before.

    Args:
        in_channels: Channels of the map, as a sequence of one number.
        out_channels: C, channels of every level.
        num_outs: Number of levels, at least 4; five are at strides 4 to 64.
        init_cfg: See mmengine.

    Shape:
        One map (B, in_channels[0], H, W) -> a tuple of (B, C, 4 H, 4 W), (B, C, 2 H, 2 W),
        (B, C, H, W), (B, C, ceil(H / 2), ceil(W / 2)) and so on.

    Raises:
        ValueError: If there is not exactly one map, or ``num_outs`` is below 4.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int = 256,
        *,
        num_outs: int = 4,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        if len(in_channels) != 1 or num_outs < 4:
            raise ValueError(
                f'in_channels is {tuple(in_channels)} and num_outs {num_outs}; give the channels '
                'of one map, and 4 levels or more'
            )
        (channels,) = in_channels
        half = channels // 2
        self.resize = nn.ModuleList(
            [
                nn.Sequential(
                    nn.ConvTranspose2d(channels, half, 2, stride=2),
                    ChannelNorm(half),
                    nn.GELU(),
                    nn.ConvTranspose2d(half, channels // 4, 2, stride=2),
                ),
                nn.ConvTranspose2d(channels, half, 2, stride=2),
                nn.Identity(),
                # the odd last row and column are kept, as by a stride-2 convolution
                nn.MaxPool2d(2, ceil_mode=True),
            ]
        )
        self.output = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(resized, out_channels, 1, bias=False),
                ChannelNorm(out_channels),
                nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
                ChannelNorm(out_channels),
            )
            for resized in (channels // 4, half, channels, channels)
        )
        self.num_outs = num_outs

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(maps) != 1:
            raise ValueError(
                f'got {len(maps)} feature maps; select one with out_indices of the backbone, such '
                'as the last: out_indices=(3,)'
            )
        levels = [
            output(resize(maps[0])) for resize, output in zip(self.resize, self.output, strict=True)
        ]
        while len(levels) < self.num_outs:
            levels.append(F.max_pool2d(levels[-1], 1, stride=2))
        return tuple(levels)
