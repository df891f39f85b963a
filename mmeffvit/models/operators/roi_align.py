"""RoIAlign of arXiv:1703.06870.

A bin is a weighted sum of pixels, whose weights are products of one per axis: a region is the
product of two small matrices with the pixels around it. In plain PyTorch, gradients take a CPU a
third of the time of torchvision's.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .backend import has_torchvision, in_float32


class Options(NamedTuple):
    """Keyword arguments of both directions."""

    aligned_height: int  # bins per region, vertically
    aligned_width: int
    spatial_scale: float  # feature pixels per pixel of the image
    sampling_ratio: int  # samples per bin and axis; 0 takes one per feature pixel, rounded up
    pool_mode: int  # 1 for the average
    aligned: bool  # whether pixel centers are at half coordinates

    @property
    def size(self) -> tuple[int, int]:
        """Bins per region, vertically and horizontally."""
        return self.aligned_height, self.aligned_width


def roi_align_forward(
    input: Tensor, rois: Tensor, output: Tensor, argmax_y: Tensor, argmax_x: Tensor, **options: int
) -> None:
    """Average bilinear samples in every bin of every region; ``argmax`` is for maximum pooling.

    A region is (image index, x1, y1, x2, y2), in pixels of the image. The options are
    :class:`Options`.

    Shape:
        (B, C, H, W), (N, 5) -> (N, C, aligned_height, aligned_width)
    """
    how = average(options)
    maps = in_float32(input)
    rois = rois.to(maps.dtype)
    if has_torchvision(maps):
        pooled = torch.ops.torchvision.roi_align(
            maps, rois, how.spatial_scale, *how.size, how.sampling_ratio, how.aligned
        )
        output.copy_(pooled)
        return
    with torch.autocast(maps.device.type, enabled=False):
        for region, (where, rows, columns) in enumerate(matrices(rois, maps.shape, how)):
            output[region] = rows @ maps[where] @ columns.mT


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    **options: int,
) -> None:
    """Write the gradient of the feature maps into ``grad_input``; see :func:`roi_align_forward`."""
    how = average(options)
    grad, shape = in_float32(grad_output), grad_input.shape
    rois = rois.to(grad.dtype)
    if has_torchvision(grad) and grad.device.type != 'cpu':
        found = torch.ops.torchvision._roi_align_backward(
            grad, rois, how.spatial_scale, *how.size, *shape, how.sampling_ratio, how.aligned
        )
        grad_input.copy_(found)
        return
    total = grad.new_zeros(shape)
    with torch.autocast(grad.device.type, enabled=False):
        for region, (where, rows, columns) in enumerate(matrices(rois, shape, how)):
            total[where] += rows.mT @ grad[region] @ columns
    grad_input.copy_(total)


def average(options: dict[str, int]) -> Options:
    how = Options(**options)
    if how.pool_mode != 1:
        raise NotImplementedError(
            "mmcv operator 'roi_align' with pool_mode='max' is not implemented by mmeffvit: "
            'install a compiled mmcv'
        )
    return how


def matrices(
    rois: Tensor, shape: torch.Size, how: Options
) -> Iterator[tuple[tuple, Tensor, Tensor]]:
    """Yield where the pixels of each region are, and their weights in its rows and columns."""
    edges = rois[:, 1:] * how.spatial_scale - (0.5 if how.aligned else 0)
    start, length = edges[:, [1, 0]], edges[:, [3, 2]] - edges[:, [1, 0]]  # vertical first
    if not how.aligned:
        length = length.clamp(min=1)
    step = length / length.new_tensor(how.size)
    samples = torch.full_like(step, how.sampling_ratio) if how.sampling_ratio > 0 else step.ceil()
    counts = samples.clamp(min=0).long().tolist()
    for image, *region in zip(rois[:, 0].long().tolist(), start, step, counts, strict=True):
        (rows, y), (columns, x) = map(axis_weights, *region, how.size, shape[2:])
        yield (image, slice(None), rows, columns), y, x


def axis_weights(
    start: Tensor, step: Tensor, count: int, num_bins: int, num_pixels: int
) -> tuple[slice, Tensor]:
    """Return the pixels of a region along an axis, P, and their weights: (num_bins, P).

    Args:
        start: First edge of the region, in feature pixels.
        step: Size of its bins.
        count: Samples per bin.
        num_bins: Number of bins.
        num_pixels: Size of the feature map.
    """
    bins, number = (torch.arange(n, device=start.device) for n in (num_bins, count))
    position = start + bins[:, None] * step + (number + 0.5) * step / max(count, 1)
    share = ((position >= -1) & (position <= num_pixels)) / max(count, 1)
    position = position.clamp(0, num_pixels - 1)
    first, last = (int(position.min()), int(position.max().ceil())) if count else (0, -1)
    pixels = torch.arange(first, last + 1, device=start.device)
    near = (1 - (position[:, :, None] - pixels).abs()).clamp(min=0)
    return slice(first, last + 1), (near * share[:, :, None]).sum(dim=1)
