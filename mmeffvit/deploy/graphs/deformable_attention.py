"""Multi-scale deformable attention (arXiv:2010.04159) for levels with dynamic sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mmcv.ops import MultiScaleDeformableAttention
from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch
from onnxscript import FLOAT
from onnxscript import opset18 as op
from torch import Tensor, nn


@dataclass(frozen=True)
class Levels:
    """Sizes of the levels, for the attention.

    Args:
        sizes: H and W of every level; dynamic ones are symbolic.
        extents: The same as a tensor of (W, H): (L, 1, 2).
    """

    sizes: Sequence[tuple[int, int]]
    extents: Tensor

    @classmethod
    def of(cls, features: Sequence[Tensor]) -> 'Levels':
        """The levels of maps (B, C, H_l, W_l)."""
        sizes = [(feature.shape[2], feature.shape[3]) for feature in features]
        like = features[0]
        sides = [
            torch.full((1,), side, dtype=like.dtype, device=like.device)
            for height, width in sizes
            for side in (width, height)
        ]
        return cls(sizes, torch.cat(sides).view(-1, 1, 2))

    @property
    def sides(self) -> list[int]:
        """H and W of every level, flattened."""
        return [side for size in self.sizes for side in size]


@torch.library.custom_op('mmeffvit::sample_levels', mutates_args=())
def sample_levels(value: Tensor, sides: Sequence[int], points: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of bilinear samples: mmcv's function as a single operator.

    Traced as is with dynamic sizes, every layer has a hundred operators, and a model takes minutes.

    Args:
        value: The cells of all levels.
        sides: H and W of every level, flattened.
        points: Normalized coordinates x and y in each level.
        weights: Weights of the samples.

    Shape:
        Values (B, V, h, c), points (B, N, h, L, P, 2), weights (B, N, h, L, P) -> (B, N, h c).
    """
    sizes = list(zip(sides[::2], sides[1::2], strict=True))
    return multi_scale_deformable_attn_pytorch(value, sizes, points, weights)


@sample_levels.register_fake
def _(value: Tensor, sides: Sequence[int], points: Tensor, weights: Tensor) -> Tensor:
    return value.new_empty(points.shape[0], points.shape[1], value.shape[2] * value.shape[3])


def onnx_sample_levels(value: FLOAT, sides: Sequence[Any], points: FLOAT, weights: FLOAT) -> FLOAT:
    """:func:`sample_levels` in standard ONNX operators, for onnxscript."""
    rest = op.Constant(value_ints=[-1])  # the images times the heads
    one = op.Constant(value_ints=[1])
    sides = [op.Reshape(op.Cast(side, to=7), rest) for side in sides]
    cells = [op.Mul(*size) for size in zip(sides[::2], sides[1::2], strict=True)]
    heads_first = op.Transpose(value, perm=[0, 2, 3, 1])  # (B, h, c, V)
    grids = op.Transpose(op.Sub(op.Add(points, points), 1.0), perm=[0, 2, 1, 3, 4, 5])
    weights = op.Transpose(weights, perm=[0, 2, 1, 3, 4])  # (B, h, N, L, P)
    number, channels = op.Shape(points, start=1, end=2), op.Shape(value, start=3, end=4)
    samples = op.Shape(points, start=4, end=5)
    found, start = None, op.Constant(value_ints=[0])
    for level, count in enumerate(cells):
        end = op.Add(start, count)
        plane = op.Slice(heads_first, start, end, op.Constant(value_ints=[3]))
        size = sides[2 * level : 2 * level + 2]
        plane = op.Reshape(plane, op.Concat(rest, channels, *size, axis=0))  # (B h, c, H, W)
        grid = op.Gather(grids, level, axis=3)
        grid = op.Reshape(grid, op.Concat(rest, number, op.Shape(points, start=4), axis=0))
        sampled = op.GridSample(plane, grid, align_corners=0, mode='bilinear', padding_mode='zeros')
        weight = op.Gather(weights, level, axis=3)
        weight = op.Reshape(weight, op.Concat(rest, one, number, samples, axis=0))
        summed = op.ReduceSum(op.Mul(sampled, weight), op.Constant(value_ints=[3]), keepdims=0)
        found = summed if found is None else op.Add(found, summed)
        start = end
    batch = op.Shape(value, start=0, end=1)
    found = op.Reshape(found, op.Concat(batch, rest, number, axis=0))  # (B, h c, N)
    return op.Transpose(found, perm=[0, 2, 1])


class TracedDeformableAttention(nn.Module):
    """mmcv's ``MultiScaleDeformableAttention``, with :class:`Levels` for ``spatial_shapes``.

    mmcv keeps the sizes in a tensor and reads its values, which a traced graph cannot do.

    Args:
        attention: The module whose parameters are used.

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
        own = self.attention
        value = query if value is None else value
        identity = query if identity is None else identity
        query = query if query_pos is None else query + query_pos
        samples = (own.num_heads, own.num_levels, own.num_points)
        value = own.value_proj(value).unflatten(2, (own.num_heads, -1))
        offsets = own.sampling_offsets(query).unflatten(2, (*samples, 2))
        weights = own.attention_weights(query).unflatten(2, (own.num_heads, -1)).softmax(-1)
        weights = weights.unflatten(3, samples[1:])
        points = reference_points[:, :, None, :, None]  # (B, N, 1, L, 1, 2 or 4)
        if points.shape[-1] == 2:
            points = points + offsets / spatial_shapes.extents
        else:
            points = points[..., :2] + offsets / own.num_points * points[..., 2:] * 0.5
        return own.output_proj(sample(value, spatial_shapes, points, weights)) + identity


def sample(value: Tensor, levels: Levels, points: Tensor, weights: Tensor) -> Tensor:
    """:func:`sample_levels`, or its plain operators for fixed sizes, which any runtime has."""
    if all(isinstance(side, int) for side in levels.sides):
        return multi_scale_deformable_attn_pytorch(value, levels.sizes, points, weights)
    return sample_levels(value, levels.sides, points, weights)


def make_traceable(module: nn.Module) -> None:
    """Replace every deformable attention inside ``module``, in place."""
    for name, child in module.named_children():
        if isinstance(child, MultiScaleDeformableAttention):
            setattr(module, name, TracedDeformableAttention(child))
        else:
            make_traceable(child)
