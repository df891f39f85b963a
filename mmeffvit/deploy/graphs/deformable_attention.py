"""Multi-scale deformable attention (arXiv:2010.04159) for levels with dynamic sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from mmcv.ops import MultiScaleDeformableAttention
from onnxscript import FLOAT
from onnxscript import opset18 as op
from torch import Tensor, nn


@dataclass(frozen=True)
class Levels:
    """Sizes of the levels, for the attention."""

    sizes: Sequence[tuple[int, int]]  # H and W of every level; dynamic ones are symbolic
    extents: Tensor  # W and H of every level, (L, 2)

    @classmethod
    def of(cls, features: Sequence[Tensor]) -> 'Levels':
        """The levels of maps (B, C, H_l, W_l)."""
        sizes = [(feature.shape[2], feature.shape[3]) for feature in features]
        sides = [features[0].new_full((1,), side) for size in sizes for side in size[::-1]]
        return cls(sizes, torch.cat(sides).view(-1, 2))

    @property
    def sides(self) -> list[int]:
        """H and W of every level, flattened."""
        return [side for size in self.sizes for side in size]


@torch.library.custom_op('mmeffvit::sample_levels', mutates_args=())
def sample_levels(planes: Tensor, sides: Sequence[int], grids: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of bilinear samples.

    mmcv's function joins the samples of all levels before it sums them, which takes as long as
    half of the sampling. Traced as is with dynamic sizes, every layer has a hundred operators, and
    a model takes minutes.

    Shape:
        planes (G, c, V): the cells of all levels, G is images times heads; sides: H and W of every
        level; grids (G, L, N, P, 2): x and y in [-1, 1]; weights (G, L, N, P) -> (G, c, N).
    """
    sizes = list(zip(sides[::2], sides[1::2], strict=True))
    levels = planes.split([height * width for height, width in sizes], dim=2)
    found = []
    for level, (plane, size) in enumerate(zip(levels, sizes, strict=True)):
        sampled = F.grid_sample(plane.unflatten(2, size), grids[:, level], align_corners=False)
        found.append((sampled * weights[:, None, level]).sum(dim=3))
    return reduce(torch.add, found)


@sample_levels.register_fake
def _(planes: Tensor, sides: Sequence[int], grids: Tensor, weights: Tensor) -> Tensor:
    return planes.new_empty(planes.shape[0], planes.shape[1], grids.shape[2])


def onnx_sample_levels(planes: FLOAT, sides: Sequence[Any], grids: FLOAT, weights: FLOAT) -> FLOAT:
    """:func:`sample_levels` in standard ONNX operators, for onnxscript."""
    one = op.Constant(value_ints=[1])
    sides = [op.Reshape(op.Cast(side, to=7), one) for side in sides]
    cells = [op.Mul(*size) for size in zip(sides[::2], sides[1::2], strict=True)]
    kept = op.Shape(planes, start=0, end=2)
    found, start = None, op.Constant(value_ints=[0])
    for level, count in enumerate(cells):
        end = op.Add(start, count)
        plane = op.Slice(planes, start, end, op.Constant(value_ints=[2]))
        plane = op.Reshape(plane, op.Concat(kept, *sides[2 * level : 2 * level + 2], axis=0))
        grid = op.Gather(grids, level, axis=1)
        sampled = op.GridSample(plane, grid, align_corners=0, mode='bilinear', padding_mode='zeros')
        weight = op.Unsqueeze(op.Gather(weights, level, axis=1), one)
        summed = op.ReduceSum(op.Mul(sampled, weight), op.Constant(value_ints=[3]), keepdims=0)
        found = summed if found is None else op.Add(found, summed)
        start = end
    return found


class TracedDeformableAttention(nn.Module):
    """mmcv's ``MultiScaleDeformableAttention``, with :class:`Levels` for ``spatial_shapes``.

    mmcv keeps the sizes in a tensor and reads its values, which a traced graph cannot do.

    Shape:
        Queries (B, N, C) and values (B, V, C), V the cells of all levels -> (B, N, C).
    """

    def __init__(self, attention: MultiScaleDeformableAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        identity: Tensor | float | None = None,
        query_pos: Tensor | None = None,
        *,
        reference_points: Tensor,
        spatial_shapes: Levels,
        **_: Any,
    ) -> Tensor:
        layer = self.attention
        value = query if value is None else value
        identity = query if identity is None else identity
        query = query if query_pos is None else query + query_pos
        weights = layer.attention_weights(query).unflatten(2, (layer.num_heads, -1)).softmax(-1)
        found = sample_levels(
            layer.value_proj(value).mT.unflatten(1, (layer.num_heads, -1)).flatten(0, 1),
            spatial_shapes.sides,
            self.grids(layer.sampling_offsets(query), reference_points, spatial_shapes),
            self.heads_first(weights.flatten(2)).flatten(0, 1),
        )  # (B h, c, N)
        found = found.reshape(query.shape[0], found.shape[1] * layer.num_heads, query.shape[1])
        return layer.output_proj(found.mT) + identity

    def grids(self, offsets: Tensor, points: Tensor, levels: Levels) -> Tensor:
        """The sampled coordinates, from -1 to 1.

        Runtimes add and multiply long rows several times faster than pairs of x and y.

        Shape:
            offsets (B, N, h L P 2), points (B, N, L or 1, 2 or 4) -> (B h, L, N, P, 2).
        """
        layer = self.attention
        repeats = (layer.num_heads, layer.num_levels, layer.num_points, 2)
        if points.shape[3] == 2:
            scale = 2 / levels.extents[None, None]
        else:  # half of the box, in coordinates of its image
            scale = points[..., 2:] / layer.num_points
        scale = scale[:, :, None, :, None].expand(-1, -1, *repeats).flatten(2)
        centers = (2 * points[..., :2] - 1).transpose(1, 2)[:, None]  # (B, 1, L or 1, N, 2)
        grids = self.heads_first(offsets * scale) + centers.repeat(1, 1, 1, 1, layer.num_points)
        return grids.flatten(0, 1).unflatten(3, (layer.num_points, 2))

    def heads_first(self, values: Tensor) -> Tensor:
        """(B, N, h L D) -> (B, h, L, N, D)."""
        layer = self.attention
        values = values.unflatten(2, (layer.num_heads, layer.num_levels, -1))
        return values.permute(0, 2, 3, 1, 4)


def make_traceable(module: nn.Module) -> None:
    """Replace every deformable attention inside ``module``, in place."""
    for name, child in module.named_children():
        if isinstance(child, MultiScaleDeformableAttention):
            setattr(module, name, TracedDeformableAttention(child))
        else:
            make_traceable(child)
