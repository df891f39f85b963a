"""RoIAlign of arXiv:1703.06870.

A bin is a weighted sum of pixels, whose weights are products of one per axis. In plain PyTorch,
``embedding_bag`` sums the pixels around the samples of each bin, and by the transposed matrix their
gradients, on a CPU in half the time of torchvision's.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import has_torchvision, in_float32

MAX_WEIGHTS = 2**22  # weights in memory at the same time, of 12 bytes with their index


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
    pixels = maps.permute(0, 2, 3, 1).flatten(0, 2)  # (B * H * W, C)
    for chosen, index, weight in split(rois, maps.shape, how):
        pooled = F.embedding_bag(index, pixels, per_sample_weights=weight, mode='sum')
        pooled = pooled.view(len(chosen), *output.shape[2:], -1).permute(0, 3, 1, 2)
        output[chosen] = pooled.to(output)


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
    total = grad.new_zeros(shape[0] * shape[2] * shape[3], shape[1])
    for chosen, index, weight in split(rois, shape, how):
        bins = grad[chosen].permute(0, 2, 3, 1).flatten(0, 2)
        total += sum_transposed(index, weight, bins, len(total))
    grad_input.copy_(total.view(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2))


def average(options: dict[str, int]) -> Options:
    how = Options(**options)
    if how.pool_mode != 1:
        raise NotImplementedError(
            "mmcv operator 'roi_align' with pool_mode='max' is not implemented by mmeffvit: "
            'install a compiled mmcv'
        )
    return how


def split(rois: Tensor, shape: torch.Size, how: Options) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield regions of about the same size, with at most ``MAX_WEIGHTS`` weights at a time.

    They are the indices of n regions, and of the pixels in each of their bins, with the weights of
    these: (n,), (n * bins, K), (n * bins, K).
    """
    edges = rois[:, 1:] * how.spatial_scale - (0.5 if how.aligned else 0)
    start, length = edges[:, [1, 0]], edges[:, [3, 2]] - edges[:, [1, 0]]  # vertical first
    if not how.aligned:
        length = length.clamp(min=1)
    step = length / length.new_tensor(how.size)
    samples = torch.full_like(step, how.sampling_ratio) if how.sampling_ratio > 0 else step.ceil()
    order = samples.amax(dim=1).argsort(descending=True)
    most = samples.amax(dim=1)[order].clamp(min=1).long().tolist()
    at = 0
    while at < len(most):
        batch = max(1, MAX_WEIGHTS // (math.prod(how.size) * (2 * most[at]) ** 2))
        chosen = order[at : at + batch]
        (y, share_y), (x, share_x) = (
            axis_weights(
                *(values[chosen, axis] for values in (start, step, samples)),
                how.size[axis],
                most[at],
                shape[2 + axis],
            )
            for axis in range(2)
        )
        y = y + rois[chosen, 0].long()[:, None, None] * shape[2]
        index = y[:, :, None, :, None] * shape[3] + x[:, None, :, None, :]
        weight = share_y[:, :, None, :, None] * share_x[:, None, :, None, :]
        yield chosen, index.flatten(3).flatten(0, 2), weight.flatten(3).flatten(0, 2)
        at += batch


def axis_weights(
    start: Tensor, step: Tensor, samples: Tensor, num_bins: int, most: int, num_pixels: int
) -> tuple[Tensor, Tensor]:
    """Return the pixels left and right of every sample along an axis, and their weights.

    Args:
        start: First edge of each region, in feature pixels.
        step: Size of its bins.
        samples: Samples per bin, at most ``most``.
        num_bins: Bins per region.
        most: Samples that are computed; those above ``samples`` have no weight.
        num_pixels: Size of the feature map.

    Shape:
        (n,), (n,), (n,) -> (n, num_bins, 2 * most), (n, num_bins, 2 * most)
    """
    start, step, samples = (values[:, None, None] for values in (start, step, samples))
    bins = torch.arange(num_bins, device=start.device)[:, None]
    number = torch.arange(most, device=start.device)
    count = samples.clamp(min=1)
    position = start + bins * step + (number + 0.5) * step / count
    share = ((number < samples) & (position >= -1) & (position <= num_pixels)) / count
    position = position.clamp(0, num_pixels - 1)
    left = position.floor()
    to_right = position - left
    left = left.long()
    right = (left + 1).clamp(max=num_pixels - 1)
    return torch.cat([left, right], dim=2), torch.cat([(1 - to_right) * share, to_right * share], 2)


def sum_transposed(index: Tensor, weight: Tensor, rows: Tensor, num_rows: int) -> Tensor:
    """Multiply ``rows`` by the transpose of the sparse matrix that ``embedding_bag`` applies.

    Shape:
        (R, K), (R, K), (R, C) -> (num_rows, C)
    """
    columns, order = index.flatten().sort()
    begin = torch.searchsorted(columns, torch.arange(num_rows, device=index.device))
    return F.embedding_bag(
        order // index.shape[1], rows, begin, per_sample_weights=weight.flatten()[order], mode='sum'
    )
