"""Post-processing operators of detectors whose shapes do not depend on values.

``torch.export`` tracks shapes, not values: dropped objects are marked instead of removed, and
selections have a fixed length. Only the length of :func:`true_indices` depends on values; runtimes
for phones lack it.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

EMPTY = -1.0  # score of an empty entry; detectors have no negative scores


@torch.library.custom_op('mmeffvit::nms_mask', mutates_args=())
def nms_mask(boxes: Tensor, scores: Tensor, iou_threshold: float, max_kept: int) -> Tensor:
    """Whether NMS keeps a box, out of those with a score above 0.

    Shape:
        boxes (B, N, 4): left, top, right and bottom; scores (B, N) -> (B, N), bool, with at most
        ``max_kept`` true entries per image.
    """
    from mmcv.ops import nms

    keep = torch.zeros_like(scores, dtype=torch.bool)
    for kept, image_boxes, image_scores in zip(keep, boxes, scores, strict=True):
        candidates = (image_scores > 0).nonzero().flatten()
        if len(candidates):
            _, best = nms(image_boxes[candidates], image_scores[candidates], iou_threshold)
            kept[candidates[best[:max_kept]]] = True
    return keep


@nms_mask.register_fake
def _(boxes: Tensor, scores: Tensor, iou_threshold: float, max_kept: int) -> Tensor:
    return torch.empty_like(scores, dtype=torch.bool)


def onnx_nms_mask(boxes: Any, scores: Any, iou_threshold: float, max_kept: int) -> Any:
    """:func:`nms_mask` in standard ONNX operators, for onnxscript."""
    from onnxscript import opset18 as op

    chosen = op.NonMaxSuppression(
        boxes,
        op.Unsqueeze(scores, op.Constant(value_ints=[1])),  # (B, 1, N): one class
        op.Constant(value_ints=[max_kept]),
        op.Constant(value_floats=[float(iou_threshold)]),
        op.Constant(value_floats=[0.0]),
    )  # (M, 3): image, class and box
    indices = op.Gather(chosen, op.Constant(value_ints=[0, 2]), axis=1)
    count = op.Slice(op.Shape(indices), op.Constant(value_ints=[0]), op.Constant(value_ints=[1]))
    ones = op.Expand(op.Constant(value_floats=[1.0]), count)
    kept = op.ScatterND(op.Mul(scores, op.Constant(value_float=0.0)), indices, ones)
    return op.Greater(kept, op.Constant(value_float=0.5))


def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The best ``k`` of scores (B, N, ...) and their indices, (B, k, ...) each, descending.

    If N is dynamic and smaller than k, they are padded with :data:`EMPTY` and index 0.
    """
    length = scores.shape[1]
    if isinstance(length, int):
        return scores.topk(min(k, length), dim=1)
    fill = scores.new_full((scores.shape[0], k, *scores.shape[2:]), EMPTY)
    best, index = torch.cat([scores, fill], dim=1).topk(k, dim=1)
    return best, torch.where(index < length, index, torch.zeros_like(index))


def true_indices(mask: Tensor) -> Tensor:
    """Indices of the true entries of a mask (N,), and always 0: some operators need one."""
    others = mask[1:].nonzero().squeeze(1) + 1
    return torch.cat([others.new_zeros(1), others])


def gather(values: Tensor, index: Tensor) -> Tensor:
    """Rows of (B, N, ...) at (B, K) -> (B, K, ...)."""
    if isinstance(index.shape[0], int) and index.shape[0] == 1 and values.ndim == 3:
        return F.embedding(index, values[0])  # in ONNX, one index per row instead of per value
    index = index.view(*index.shape, *[1] * (values.ndim - 2))
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Clip boxes to an image of ``size`` (height, width): (..., 4)."""
    x = boxes[..., 0::2].clamp(min=0, max=size[1])
    y = boxes[..., 1::2].clamp(min=0, max=size[0])
    return torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], dim=-1)


def to_pixels(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes (..., 4) from normalized coordinates to pixels of an image of ``size``."""
    left, top, right, bottom = boxes.unbind(dim=-1)
    height, width = size
    return torch.stack([left * width, top * height, right * width, bottom * height], dim=-1)


def drop_small(boxes: Tensor, scores: Tensor, min_size: float) -> Tensor:
    """Scores, EMPTY for boxes with a side of at most ``min_size`` pixels; no-op if negative."""
    if min_size < 0:
        return scores
    sides = boxes[..., 2:] - boxes[..., :2]
    large = (sides > min_size).all(dim=-1)
    return torch.where(large, scores, torch.full_like(scores, EMPTY))


def offset_by_class(boxes: Tensor, labels: Tensor, scores: Tensor) -> Tensor:
    """Offset boxes by class like mmcv, so that boxes of different classes do not overlap.

    The offset is the largest coordinate of an object plus 1, which gives mmcv's rounding.
    """
    found = (scores > 0).unsqueeze(-1)
    largest = torch.where(found, boxes, torch.full_like(boxes, -1.0)).amax(dim=(1, 2))
    return boxes + (labels.to(boxes.dtype) * (largest[:, None] + 1)).unsqueeze(-1)


def batched_nms(
    boxes: Tensor, scores: Tensor, labels: Tensor, nms: Mapping[str, Any], max_kept: int
) -> Tensor:
    """Class-offset NMS per image; scores of all but the ``max_kept`` best become :data:`EMPTY`.

    Shape:
        boxes (B, N, 4), scores (B, N), empty if 0 or less, labels (B, N) -> scores (B, N).
    """
    if not nms.get('class_agnostic', False):
        boxes = offset_by_class(boxes, labels, scores)
    keep = nms_mask(boxes, scores, float(nms['iou_threshold']), max_kept)
    return torch.where(keep, scores, torch.full_like(scores, EMPTY))


def best_objects(
    boxes: Tensor, scores: Tensor, labels: Tensor, max_kept: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``max_kept`` best of every image; empty entries have box 0, score 0 and label -1.

    Shape:
        (B, N, 4), (B, N), (B, N) -> (B, K, 4), (B, K), (B, K).
    """
    missing = max_kept - scores.shape[1] if isinstance(scores.shape[1], int) else 0
    if missing > 0:  # a small image of a fixed size
        scores = F.pad(scores, (0, missing), value=EMPTY)
        boxes, labels = F.pad(boxes, (0, 0, 0, missing)), F.pad(labels, (0, missing))
    scores, index = topk(scores, max_kept)
    boxes, labels = gather(boxes, index), gather(labels, index)
    found = scores > 0
    boxes = torch.where(found.unsqueeze(-1), boxes, torch.zeros_like(boxes))
    labels = torch.where(found, labels, torch.full_like(labels, -1))
    return boxes, torch.where(found, scores, torch.zeros_like(scores)), labels
