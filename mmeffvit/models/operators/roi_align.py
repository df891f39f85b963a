"""RoIAlign of arXiv:1703.06870, by torchvision's operator or in plain PyTorch."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import has_torchvision, in_float32

MAX_SAMPLES = 2**24  # numbers in memory at the same time


class Options(NamedTuple):
    """Keyword arguments of both directions.

    Args:
        aligned_height: Bins per region, vertically.
        aligned_width: Bins per region, horizontally.
        spatial_scale: Feature pixels per pixel of the image.
        sampling_ratio: Samples per bin and axis; 0 takes one per feature pixel, rounded up.
        pool_mode: 1 for the average.
        aligned: Whether pixel centers are at half coordinates.
    """

    aligned_height: int
    aligned_width: int
    spatial_scale: float
    sampling_ratio: int
    pool_mode: int
    aligned: bool


def roi_align_forward(
    input: Tensor, rois: Tensor, output: Tensor, argmax_y: Tensor, argmax_x: Tensor, **options: int
) -> None:
    """Average bilinear samples in every bin of every region.

    Args:
        input: Feature maps.
        rois: (image index, x1, y1, x2, y2), in pixels of the image.
        output: Receives the averages.
        argmax_y: For maximum pooling only.
        argmax_x: For maximum pooling only.
        options: See :class:`Options`.

    Shape:
        (B, C, H, W), (N, 5) -> (N, C, aligned_height, aligned_width)

    Raises:
        NotImplementedError: For maximum pooling.
    """
    output.copy_(align(in_float32(input), rois, Options(**options)))


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    **options: int,
) -> None:
    """Write the gradient of the feature maps into ``grad_input``; see :func:`roi_align_forward`."""
    maps = torch.zeros_like(in_float32(grad_input)).requires_grad_()  # any: it is linear
    with torch.enable_grad():
        pooled = align(maps, rois, Options(**options))
    grad_input.copy_(torch.autograd.grad(pooled, maps, grad_output.to(pooled.dtype))[0])


def align(maps: Tensor, rois: Tensor, how: Options) -> Tensor:
    if how.pool_mode != 1:
        raise NotImplementedError(
            "mmcv operator 'roi_align' with pool_mode='max' is not implemented by mmeffvit: "
            'install a compiled mmcv'
        )
    rois = rois.to(maps.dtype)
    if has_torchvision(maps):
        from torchvision.ops import roi_align

        size = (how.aligned_height, how.aligned_width)
        return roi_align(maps, rois, size, how.spatial_scale, how.sampling_ratio, how.aligned)
    # none at first, but with a gradient
    pooled = [maps[:0, :, :1, :1].expand(-1, -1, how.aligned_height, how.aligned_width)]
    chosen = [torch.zeros(0, dtype=torch.long, device=maps.device)]
    for image, index, (x, y) in split(rois, maps.shape, how):
        chosen.append(index)
        pooled.append(average(maps[image], x, y))
    order = torch.cat(chosen).argsort()
    return torch.cat(pooled)[order]


def split(
    rois: Tensor, shape: torch.Size, how: Options
) -> Iterator[tuple[int, Tensor, list[Tensor]]]:
    """Yield regions of one image with equal numbers of samples, at most ``MAX_SAMPLES`` at a time.

    Yields:
        The image, the indices of n regions, and the horizontal and the vertical positions of their
        samples, each (n, bins, samples per bin).
    """
    bins = (how.aligned_width, how.aligned_height)
    edges = rois[:, 1:] * how.spatial_scale - (0.5 if how.aligned else 0)
    start, length = edges[:, :2], edges[:, 2:] - edges[:, :2]
    if not how.aligned:
        length = length.clamp(min=1)
    step = length / length.new_tensor(bins)
    samples = torch.full_like(step, how.sampling_ratio) if how.sampling_ratio > 0 else step.ceil()
    kinds, kind = torch.cat([rois[:, :1], samples], dim=1).unique(dim=0, return_inverse=True)
    for number, (image, *counts) in enumerate(kinds.long().tolist()):
        size = shape[1] * bins[0] * bins[1] * max(counts[0] * counts[1], 1)
        for index in (kind == number).nonzero().squeeze(1).split(max(MAX_SAMPLES // size, 1)):
            axes = [
                start[index, axis, None, None]
                + step[index, axis, None, None]
                * (ranged(bins[axis], start)[:, None] + (ranged(count, start) + 0.5) / count)
                for axis, count in enumerate(max(count, 0) for count in counts)
            ]
            yield image, index, axes


def ranged(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, dtype=like.dtype, device=like.device)


def average(level: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Means of bilinear samples: (C, H, W), (n, w, s), (n, h, t) -> (n, C, h, w).

    A sample between the border and one pixel outside has the value of the border; further outside
    it is zero.
    """
    height, width = level.shape[1:]
    shape = (len(x), y.shape[1], y.shape[2], x.shape[1], x.shape[2])
    if 0 in shape:  # regions without an area have no samples
        return level.new_zeros(len(x), len(level), y.shape[1], x.shape[1])
    x = x[:, None, None].expand(shape).flatten(3).flatten(0, 2)
    y = y[:, :, :, None, None].expand(shape).flatten(3).flatten(0, 2)
    inside = (x >= -1) & (x <= width) & (y >= -1) & (y <= height)
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], dim=-1)
    options = dict(padding_mode='border', align_corners=False)
    sampled = F.grid_sample(level[None], grid[None], **options)[0] * inside
    return sampled.view(-1, *shape).mean(dim=(3, 5)).transpose(0, 1)
