"""Non-maximum suppression of boxes."""

from collections.abc import Callable

import torch
from torch import Tensor

from .backend import has_torchvision, in_float32


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Return the indices of the boxes that NMS keeps, by descending score.

    Widths are x2 - x1 + offset, with an offset of 0 or 1; heights likewise.

    Shape:
        (N, 4), (N,) -> (M,), M <= N
    """
    boxes = with_offset(in_float32(boxes), offset)
    scores = scores.to(boxes.dtype)
    if has_torchvision(boxes):
        return torch.ops.torchvision.nms(boxes, scores, iou_threshold)
    groups = group(boxes, scores, lambda iou: iou > iou_threshold)
    return torch.tensor([kept for kept, *_ in groups], dtype=torch.long, device=boxes.device)


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    """Return the indices of each kept box and of those that it removes, by descending score.

    A row of ``dets`` is (x1, y1, x2, y2, score), on the CPU.
    """
    dets = in_float32(dets)
    return group(dets[:, :4], dets[:, 4], lambda iou: iou >= iou_threshold)


def group(boxes: Tensor, scores: Tensor, is_near: Callable[[Tensor], Tensor]) -> list[list[int]]:
    """Return each box that no better kept one is near to, with those that it removes."""
    order, groups = scores.argsort(descending=True, stable=True), []
    while len(order):
        near = is_near(overlaps(boxes[order[0]], boxes[order]))
        near[0] = True  # the best itself, also without an area
        groups.append(order[near].tolist())
        order = order[~near]
    return groups


def softnms(
    boxes: Tensor,  # (x1, y1, x2, y2) in pixels, on the CPU
    scores: Tensor,  # one per box
    dets: Tensor,  # receives boxes and new scores in its first M rows, by descending score
    iou_threshold: float,  # minimum IoU at which the methods 0 and 1 change a score
    sigma: float,  # width of the Gaussian of method 2
    min_score: float,  # boxes with a lower score are removed
    method: int,  # 0 removes, 1 multiplies by 1 - IoU, 2 by exp(-IoU^2 / sigma)
    offset: int,  # the width is x2 - x1 + offset, 0 or 1; the height likewise
) -> Tensor:
    """Lower the scores of boxes that overlap better ones: Soft-NMS of arXiv:1704.04503.

    Shape:
        (N, 4), (N,) -> (M,), M <= N, indices of the remaining boxes
    """
    compared, scores = with_offset(in_float32(boxes), offset), in_float32(scores).clone()
    waiting, kept = torch.arange(len(boxes)), []
    while len(waiting):
        best = waiting[scores[waiting].argmax()]
        kept.append(int(best))
        waiting = waiting[waiting != best]
        iou = overlaps(compared[best], compared[waiting]).nan_to_num()
        if method == 2:
            factor = torch.exp(-iou.square() / sigma)
        else:
            factor = torch.where(iou >= iou_threshold, 1 - iou if method else 0.0, 1.0)
        scores[waiting] *= factor
        waiting = waiting[scores[waiting] >= min_score]
    dets[: len(kept), :4] = boxes[kept].to(dets)
    dets[: len(kept), 4] = scores[kept].to(dets)
    return torch.tensor(kept, dtype=torch.long)


def with_offset(boxes: Tensor, offset: int) -> Tensor:
    """Move the right and lower edges, so that sizes are differences."""
    return boxes + boxes.new_tensor([0, 0, offset, offset]) if offset else boxes


def overlaps(box: Tensor, boxes: Tensor) -> Tensor:
    """The IoU of a box with others, (4,) and (N, 4) -> (N,); NaN for two without an area."""
    sides = (boxes[:, 2:].minimum(box[2:]) - boxes[:, :2].maximum(box[:2])).clamp(min=0)
    common, areas = sides.prod(dim=1), (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    return common / (areas + (box[2:] - box[:2]).prod() - common)
