"""The anchors of SSDLite, for images of any size."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from mmdet.registry import TASK_UTILS
from torch import Tensor


@TASK_UTILS.register_module()
class SSDLiteAnchorGenerator:
    """SSD anchors (arXiv:1512.02325) in normalized coordinates, as MobileViTv2's authors use them.

    Each level k has a scale ``s_k``, evenly spaced from the first level to one past the last. Every
    cell has a square anchor of side ``s_k``, a square of side ``sqrt(s_k * s_(k+1))``, and for each
    r anchors of area ``s_k^2`` with aspect ratios r and 1/r. Sides are limited to those of the
    image; mmdet's ``SSDAnchorGenerator`` does not limit them, and works in pixels of a fixed input
    size.

    Args:
        ratios: Aspect ratios r, above 1, of each level.
        size_range: Scale of the first level and of the one past the last, relative to the image.

    Raises:
        ValueError: If there is no level, or a ratio or a scale is not positive.
    """

    def __init__(self, ratios: Sequence[Sequence[float]], size_range: tuple[float, float]) -> None:
        if not ratios or min(*size_range, *(r for level in ratios for r in level)) <= 0:
            raise ValueError(
                f'ratios is {ratios} and size_range {size_range}; there must be at least one '
                'level, and all numbers must be positive'
            )
        sizes = np.linspace(*size_range, len(ratios) + 1).tolist()
        self.sides = [
            anchor_sides(*both, level) for both, level in zip(pairwise(sizes), ratios, strict=True)
        ]

    @property
    def num_levels(self) -> int:
        return len(self.sides)

    @property
    def num_base_priors(self) -> list[int]:
        """Number of anchors per cell of each level."""
        return [len(sides) for sides in self.sides]

    def grid_priors(
        self,
        featmap_sizes: Sequence[tuple[int, int]],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = 'cpu',
    ) -> list[Tensor]:
        """The anchors of every level, ordered by row, column and anchor of a cell.

        Args:
            featmap_sizes: Height and width of each level, in cells.
            dtype: Type of the anchors.
            device: Device of the anchors.

        Returns:
            For each level (H * W * num_base_priors, 4): left, top, right and bottom, in normalized
            coordinates. The corners may lie outside the image.
        """
        levels = []
        for (height, width), sides in zip(featmap_sizes, self.sides, strict=True):
            y = (torch.arange(height, device=device) + 0.5) / height
            x = (torch.arange(width, device=device) + 0.5) / width
            y, x = torch.meshgrid(y, x, indexing='ij')
            centers = torch.stack([x, y], dim=-1).view(-1, 1, 2)  # (H * W, 1, 2)
            half = centers.new_tensor(sides) / 2
            corners = torch.cat([centers - half, centers + half], dim=-1)  # (H * W, A, 4)
            levels.append(corners.view(-1, 4).to(dtype))
        return levels


def anchor_sides(
    size: float, following: float, ratios: Sequence[float]
) -> list[tuple[float, float]]:
    """Width and height of the anchors of a cell, relative to the image.

    Args:
        size: Scale of the level.
        following: Scale of the next level.
        ratios: Aspect ratios r; each adds anchors of ratio r and 1/r.
    """
    between = math.sqrt(size * following)
    sides = [(size, size), (between, between)]
    for root in map(math.sqrt, ratios):
        sides += [(size * root, size / root), (size / root, size * root)]
    return [(min(width, 1.0), min(height, 1.0)) for width, height in sides]
