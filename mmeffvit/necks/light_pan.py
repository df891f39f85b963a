"""A path aggregation network of depth-wise convolutions, for detectors on phones."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmeffvit.layers.conv import ConvNorm, ResidualConvNorm
from mmeffvit.registry import MODELS

KERNEL_SIZE = 5  # as in PicoDet (arXiv:2111.00902): a large field of view at few MACs


class Fusion(nn.Module):
    """Fuse two maps of a level: 1x1, a residual depth-wise 5x5 and 1x1.

    Shape:
        Two maps (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = ConvNorm(2 * channels, channels, act=nn.ReLU)
        self.depthwise = ResidualConvNorm(channels, 1.0, kernel_size=KERNEL_SIZE)
        self.project = ConvNorm(channels, channels, act=nn.ReLU)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.project(self.depthwise(self.reduce(torch.cat([x, y], dim=1))))


class TopDownFusion(Fusion):
    """A :class:`Fusion` that resizes the first map, of a coarser level, to the second one."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(F.interpolate(x, y.shape[2:]), y)

    def folded(self) -> 'FoldedFusion':
        return FoldedFusion(self)


class FoldedFusion(nn.Module):
    """A fused :class:`TopDownFusion` that convolves the coarse map before the resize.

    ``W [resize(x), y] + b = resize(W_x x) + W_y y + b``.
    """

    def __init__(self, fusion: TopDownFusion) -> None:
        super().__init__()
        conv, self.act = fusion.reduce
        coarse, fine = conv.weight.detach().chunk(2, dim=1)
        channels = conv.out_channels
        self.coarse = nn.Conv2d(channels, channels, 1, bias=False).to(coarse)
        self.coarse.load_state_dict(dict(weight=coarse))
        self.fine: nn.Module = nn.Conv2d(channels, channels, 1).to(fine)
        self.fine.load_state_dict(dict(weight=fine, bias=conv.bias))
        self.depthwise, self.project = fusion.depthwise, fusion.project

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        joined = F.interpolate(self.coarse(x), y.shape[2:]) + self.fine(y)
        return self.project(self.depthwise(self.act(joined)))


@MODELS.register_module()
class LightPAN(BaseModule):
    """Path aggregation (arXiv:1803.01534) with depth-wise 5x5 convolutions and one width.

    Maps are projected to C channels and fused from coarse to fine, then from fine to coarse. A
    level that the backbone lacks is made of its nearest map: the finer one by a transposed
    convolution, the coarser one by a depth-wise convolution of stride 2. Maps are resized to the
    exact size of the next level, so images can have any size.

    Args:
        in_channels: Channels of the incoming maps, fine to coarse.
        out_channels: C, channels of every level.
        finer: Adds a level before the finest map, with half its stride.
        coarser: Adds a level after the coarsest map, with twice its stride.
        init_cfg: See mmengine.

    Shape:
        Maps (B, in_channels[i], H_i, W_i) -> a tuple of (B, C, H_j, W_j); a finer level has
        (2 H_0, 2 W_0), a coarser one half of the last sides, rounded up.

    Raises:
        ValueError: If there are no maps, or the number of input maps differs.
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
        down = dict(stride=2, groups=out_channels)
        num_steps = len(in_channels) - 1 + finer + coarser
        self.lateral = nn.ModuleList(
            ConvNorm(channels, out_channels, act=nn.ReLU) for channels in in_channels
        )
        self.finer = (
            nn.ConvTranspose2d(in_channels[0], out_channels, 2, stride=2) if finer else None
        )
        self.coarser = (
            nn.Sequential(
                ConvNorm(out_channels, out_channels, KERNEL_SIZE, **down),
                ConvNorm(out_channels, out_channels, act=nn.ReLU),
            )
            if coarser
            else None
        )
        self.top_down = nn.ModuleList(TopDownFusion(out_channels) for _ in range(num_steps))
        self.downsample = nn.ModuleList(
            ConvNorm(out_channels, out_channels, KERNEL_SIZE, **down) for _ in range(num_steps)
        )
        self.bottom_up = nn.ModuleList(Fusion(out_channels) for _ in range(num_steps))

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(maps) != len(self.lateral):
            raise ValueError(f'{len(maps)} maps arrive; in_channels names {len(self.lateral)}')
        levels = [conv(x) for conv, x in zip(self.lateral, maps, strict=True)]
        if self.finer is not None:
            levels.insert(0, self.finer(maps[0]))
        if self.coarser is not None:
            levels.append(self.coarser(levels[-1]))
        for i in range(len(levels) - 2, -1, -1):
            levels[i] = self.top_down[i](levels[i + 1], levels[i])
        for i, (downsample, fuse) in enumerate(zip(self.downsample, self.bottom_up, strict=True)):
            levels[i + 1] = fuse(downsample(levels[i]), levels[i + 1])
        return tuple(levels)

    @torch.no_grad()
    def folded(self) -> 'LightPAN':
        """Let the transposed convolution include the 1x1 convolution after it."""
        if self.finer is not None:
            conv, fusion = self.finer, self.top_down[0]
            weight = fusion.fine.weight.flatten(1)  # (C, C)
            conv.bias.copy_(weight @ conv.bias + fusion.fine.bias)
            conv.weight.copy_(torch.einsum('ichw,oc->iohw', conv.weight, weight))
            fusion.fine = nn.Identity()
        return self
