"""RoIAlign (arXiv:1703.06870) over the levels of a pyramid, as an operator with a fixed shape."""

from collections.abc import Sequence
from typing import Any

import torch
from mmcv.ops import roi_align
from onnxscript import FLOAT, INT64
from onnxscript import opset18 as op
from torch import Tensor


@torch.library.custom_op('mmeffvit::multi_level_roi_align', mutates_args=())
def multi_level_roi_align(
    features: Sequence[Tensor],
    rois: Tensor,
    levels: Tensor,
    spatial_scales: Sequence[float],
    output_size: Sequence[int],
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Average-pool every region from the level that it is assigned to.

    mmdet selects the regions of each level, so shapes depend on values. Here this happens inside
    the operator, whose output shape depends on input shapes only.

    Args:
        features: The maps of the levels.
        rois: Index of the image and corners of a box in input pixels.
        levels: The level of each region, in [0, number of levels).
        spatial_scales: Pixels of each level per input pixel.
        output_size: h and w.
        sampling_ratio: Samples per bin in each direction; 0 for an adaptive number.
        aligned: Whether coordinates are shifted by half a pixel.

    Shape:
        Maps (B, C, H_l, W_l), regions (R, 5), levels (R,) -> (R, C, h, w).
    """
    pooled = rois.new_zeros(len(rois), features[0].shape[1], *output_size)
    for level, (feature, scale) in enumerate(zip(features, spatial_scales, strict=True)):
        chosen = (levels == level).nonzero().squeeze(1)
        if len(chosen):  # mmcv misreads channels-last maps
            pooled[chosen] = roi_align(
                feature.contiguous(), rois[chosen], tuple(output_size), scale, sampling_ratio,
                'avg', aligned,
            )  # fmt: skip
    return pooled


@multi_level_roi_align.register_fake
def _(
    features: Sequence[Tensor], rois: Tensor, levels: Any, scales: Any, output_size: Any, *_: Any
) -> Tensor:
    return rois.new_empty(rois.shape[0], features[0].shape[1], *output_size)


def onnx_multi_level_roi_align(
    features: Sequence[FLOAT],
    rois: FLOAT,
    levels: INT64,
    spatial_scales: Sequence[float],
    output_size: Sequence[int],
    sampling_ratio: int,
    aligned: bool,
) -> FLOAT:
    """The operator in ONNX: pool the regions of each level, then restore their order."""
    height, width = output_size
    corners = op.Slice(rois, starts=[1], ends=[5], axes=[1])
    images = op.Cast(op.Gather(rois, 0, axis=1), to=7)
    chosen, pooled = [], []
    for level, (feature, scale) in enumerate(zip(features, spatial_scales, strict=True)):
        of_level = op.Squeeze(op.NonZero(op.Equal(levels, level)), [0])
        chosen.append(of_level)
        pooled.append(
            op.RoiAlign(
                feature,
                op.Gather(corners, of_level, axis=0),
                op.Gather(images, of_level, axis=0),
                coordinate_transformation_mode='half_pixel' if aligned else 'output_half_pixel',
                mode='avg',
                output_height=height,
                output_width=width,
                sampling_ratio=sampling_ratio,
                spatial_scale=scale,
            )
        )
    # each region has one level, so the indices are a permutation, which is inverted here
    order = op.Concat(*chosen, axis=0)
    places = op.Range(0, op.Squeeze(op.Shape(order)), 1)
    places = op.ScatterElements(order, order, places)
    return op.Gather(op.Concat(*pooled, axis=0), places, axis=0)
