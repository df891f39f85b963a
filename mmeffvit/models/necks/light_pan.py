"""A path aggregation network of depth-wise convolutions, for detectors on phones."""

from collections.abc import Sequence
from functools import partial

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmeffvit.models.layers.conv import ConvNorm, ResidualConvNorm
from mmeffvit.registries import MODELS

KERNEL_SIZE = 5  # as in PicoDet (arXiv:2111.00902): a large field of view at few MACs


def refinement(channels: int) -> nn.Sequential:
    """A residual depth-wise 5x5 and a 1x1 convolution."""
    return nn.Sequential(
        ResidualConvNorm(channels, 1.0, kernel_size=KERNEL_SIZE),
        ConvNorm(channels, channels, act=nn.ReLU),
    )


class Fusion(nn.Module):
    """Fuse two maps of a level: the sum of a 1x1 of each, a residual depth-wise 5x5 and a 1x1.

    Shape:
        Two maps (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.other = ConvNorm(channels, channels)
        self.own = ConvNorm(channels, channels)
        self.act = nn.ReLU()
        self.refine = refinement(channels)

    def forward(self, other: Tensor, own: Tensor) -> Tensor:
        return self.refine(self.act(self.other(other) + self.own(own)))


class TopDownFusion(Fusion):
    """A :class:`Fusion` that resizes the first map, of a coarser level, after its convolution.

    The convolution then takes a quarter of the MACs, with the same outputs.

    Shape:
        (B, C, h, w) and (B, C, H, W) -> (B, C, H, W).
    """

    def forward(self, other: Tensor, own: Tensor) -> Tensor:
        other = F.interpolate(self.other(other), own.shape[2:])
        return self.refine(self.act(other + self.own(own)))


class FinerLevel(nn.Sequential):
    """A level of half the stride: sub-pixel convolution (arXiv:1609.05158), depth-wise 5x5 and 1x1.

    Each of the four new pixels gets C / 4 channels, which a 1x1 convolution expands to C.

    Shape:
        (B, C, H, W) -> (B, C, 2 H, 2 W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__(
            ConvNorm(channels, channels),
            nn.PixelShuffle(2),
            ConvNorm(channels // 4, channels, act=nn.ReLU),
            refinement(channels),
        )


@MODELS.register_module()
class LightPAN(BaseModule):
    """Path aggregation (arXiv:1803.01534) with depth-wise 5x5 convolutions and one width.

    Maps are projected to C channels and fused from coarse to fine, then from fine to coarse. A
    level that the backbone lacks is made from its neighbor: the finer one by a sub-pixel
    convolution, the coarser one by a depth-wise convolution of stride 2. Each level
    has half of the sides of the one before it, rounded up; from such maps, images have any size.

    Args:
        in_channels: Channels of the incoming feature maps, fine to coarse.
        out_channels: C, channels of every level; a multiple of 4 with ``finer``.
        finer: Adds a level before the finest map, with half its stride.
        coarser: Adds a level after the coarsest map, with twice its stride.
        init_cfg: See mmengine.

    Shape:
        Maps (B, in_channels[i], H_i, W_i) -> a tuple of (B, C, H_j, W_j); a finer level has
        (2 H_0, 2 W_0), a coarser one half of the last sides, rounded up.

    Raises:
        ValueError: If there are no maps, C does not fit, or the number of input maps differs.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int = 96,
        *,
        finer: bool = False,
        coarser: bool = False,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        if not in_channels:
            raise ValueError(f'in_channels is {tuple(in_channels)}; there must be one map or more')
        if finer and out_channels % 4:
            raise ValueError(f'out_channels is {out_channels}; with finer it is a multiple of 4')
        mix = partial(ConvNorm, out_channels, out_channels)
        halve = partial(mix, KERNEL_SIZE, stride=2, groups=out_channels)
        num_steps = len(in_channels) - 1 + coarser
        self.lateral = nn.ModuleList(
            ConvNorm(channels, out_channels, act=nn.ReLU) for channels in in_channels
        )
        self.finer = FinerLevel(out_channels) if finer else None
        self.coarser = nn.Sequential(halve(), mix(act=nn.ReLU)) if coarser else None
        self.top_down = nn.ModuleList(TopDownFusion(out_channels) for _ in range(num_steps))
        self.downsample = nn.ModuleList(halve() for _ in range(num_steps + finer))
        self.bottom_up = nn.ModuleList(Fusion(out_channels) for _ in range(num_steps + finer))

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(maps) != len(self.lateral):
            raise ValueError(f'got {len(maps)} feature maps; in_channels has {len(self.lateral)}')
        levels = [conv(x) for conv, x in zip(self.lateral, maps, strict=True)]
        if self.coarser is not None:
            levels.append(self.coarser(levels[-1]))
        for i in range(len(levels) - 2, -1, -1):
            levels[i] = self.top_down[i](levels[i + 1], levels[i])
        if self.finer is not None:
            levels.insert(0, self.finer(levels[0]))
        for i, (downsample, fuse) in enumerate(zip(self.downsample, self.bottom_up, strict=True)):
            levels[i + 1] = fuse(downsample(levels[i]), levels[i + 1])
        return tuple(levels)
