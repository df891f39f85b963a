"""The anchors of SSDLite, laid over an image of any size."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from mmdet.registry import TASK_UTILS
from torch import Tensor


@TASK_UTILS.register_module()
class SSDLiteAnchorGenerator:
    """Anchors of SSD (arXiv:1512.02325) in parts of the image, as MobileViTv2's authors lay them.

    A level has a size ``s``, evenly spaced from the first level to one after the last, and in every
    cell a square of side ``s_k``, a square of side ``sqrt(s_k * s_(k+1))``, and for each ratio r a
    rectangle of ``s_k * sqrt(r)`` by ``s_k / sqrt(r)``, lying and then upright. No anchor is wider
    or higher than the image; mmdet's ``SSDAnchorGenerator`` lets them be, and works in pixels of
    one input size.

    Args:
        ratios: For each level, long side over short side of its rectangles.
        size_range: ``s`` of the first level, and of the one after the last, in parts of the image.

    Raises:
        ValueError: If there is no level, or a ratio or a size is not above zero.
    """

    def __init__(self, ratios: Sequence[Sequence[float]], size_range: tuple[float, float]) -> None:
        if not ratios or min(*size_range, *(r for level in ratios for r in level)) <= 0:
            raise ValueError(
                f'ratios is {ratios} and size_range {size_range}; there must be one level or more, '
                'and no number that is not above 0'
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
        """Anchors in a cell of each level."""
        return [len(sides) for sides in self.sides]

    def grid_priors(
        self,
        featmap_sizes: Sequence[tuple[int, int]],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = 'cpu',
    ) -> list[Tensor]:
        """The anchors of every level, row by row, those of a cell together.

        Args:
            featmap_sizes: Height and width of each level, in cells.
            dtype: Of the anchors.
            device: Of the anchors.

        Returns:
            For each level (H * W * num_base_priors, 4): left, top, right and bottom, in parts of
            the image. The corners may lie outside it.
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
    """Width and height of the anchors of a cell, in parts of the image.

    Args:
        size: ``s`` of the level.
        following: ``s`` of the next level.
        ratios: Long side over short side of the rectangles.
    """
    between = math.sqrt(size * following)
    sides = [(size, size), (between, between)]
    for root in map(math.sqrt, ratios):
        sides += [(size * root, size / root), (size / root, size * root)]
    return [(min(width, 1.0), min(height, 1.0)) for width, height in sides]
