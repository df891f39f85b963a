"""A feature pyramid for backbones whose finest map is coarser than the heads need."""

from collections.abc import Sequence

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmeffvit.registries import MODELS


@MODELS.register_module()
class TransposedFPN(BaseModule):
    """Feature pyramid (arXiv:1612.03144) with finer levels from transposed convolutions.

    The neck of SHViT's authors: after the top-down path the finest level is upsampled ``num_finer``
    times by 2x2 transposed convolutions with stride 2. These levels get no lateral connection from
    the backbone. All convolutions have a bias, but no norm or activation.

    Args:
        in_channels: Channels of the incoming feature maps, fine to coarse.
        out_channels: C, channels of every level.
        num_finer: Number of levels below the finest map; each halves the stride.
        coarser: Add a level above the coarsest map: a 3x3 convolution with stride 2 on that map of
            the backbone.
        init_cfg: See mmengine; by default convolutions have Xavier-uniform initialization.

    Shape:
        Maps (B, in_channels[i], H_i, W_i) -> a tuple of (B, C, H_j, W_j), the finer levels first.

    Raises:
        ValueError: If there are no maps, ``num_finer`` is negative, or the number of input maps
            differs from ``in_channels``.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int = 256,
        *,
        num_finer: int = 2,
        coarser: bool = False,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg or dict(type='Xavier', layer='Conv2d', distribution='uniform'))
        if not in_channels or num_finer < 0:
            raise ValueError(
                f'in_channels is {tuple(in_channels)} and num_finer {num_finer}; there must be one '
                'map or more, and 0 finer levels or more'
            )
        self.lateral = nn.ModuleList(nn.Conv2d(c, out_channels, 1) for c in in_channels)
        self.upsample = nn.ModuleList(
            nn.ConvTranspose2d(out_channels, out_channels, 2, stride=2) for _ in range(num_finer)
        )
        self.output = nn.ModuleList(
            nn.Conv2d(out_channels, out_channels, 3, padding=1)
            for _ in range(num_finer + len(in_channels))
        )
        self.coarser = (
            nn.Conv2d(in_channels[-1], out_channels, 3, stride=2, padding=1) if coarser else None
        )

    def init_weights(self) -> None:
        if not self.is_init:
            for layer in self.upsample:
                nn.init.kaiming_normal_(layer.weight, mode='fan_out', nonlinearity='relu')
                nn.init.zeros_(layer.bias)
        super().init_weights()  # last: it may load weights

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(maps) != len(self.lateral):
            raise ValueError(f'got {len(maps)} feature maps; in_channels has {len(self.lateral)}')
        levels = [conv(x) for conv, x in zip(self.lateral, maps, strict=True)]
        for i in range(len(levels) - 1, 0, -1):
            # to the exact size: a stride-2 convolution rounds up, so it need not be a factor 2
            levels[i - 1] = levels[i - 1] + F.interpolate(levels[i], levels[i - 1].shape[2:])
        for layer in self.upsample:
            levels.insert(0, layer(levels[0]))
        outputs = [conv(x) for conv, x in zip(self.output, levels, strict=True)]
        if self.coarser is not None:
            outputs.append(self.coarser(maps[-1]))
        return tuple(outputs)
