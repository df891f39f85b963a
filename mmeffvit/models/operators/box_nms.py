"""Non-maximum suppression of boxes."""

from heapq import heapify, heappop, heappush

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
    order = scores.argsort(descending=True, stable=True)
    removers = remove(overlapping_pairs(boxes[order], iou_threshold), len(boxes))
    return order[torch.tensor([remover is None for remover in removers], dtype=torch.bool)]


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    """Return the indices of each kept box and of those that it removes, by descending score.

    A row of ``dets`` is (x1, y1, x2, y2, score), on the CPU.
    """
    dets = in_float32(dets)
    order = dets[:, 4].argsort(descending=True, stable=True)
    pairs = overlapping_pairs(dets[order, :4], iou_threshold, inclusive=True)
    groups: dict[int, list[int]] = {}
    removers = remove(pairs, len(dets))
    for rank, (index, remover) in enumerate(zip(order.tolist(), removers, strict=True)):
        groups.setdefault(rank if remover is None else remover, []).append(index)
    return list(groups.values())


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
    compared = with_offset(in_float32(boxes), offset)
    if method == 2:
        first, second, iou = overlapping_pairs(compared, 0)
        weight = torch.exp(-iou.square() / sigma)
    else:
        first, second, iou = overlapping_pairs(compared, iou_threshold, inclusive=True)
        weight = 1 - iou if method else torch.zeros_like(iou)
    neighbors: list[list[tuple[int, float]]] = [[] for _ in range(len(boxes))]
    for a, b, factor in zip(first.tolist(), second.tolist(), weight.tolist(), strict=True):
        neighbors[a].append((b, factor))
        neighbors[b].append((a, factor))
    kept = lower_scores(in_float32(scores).tolist(), neighbors, min_score)
    index = torch.tensor([at for at, _ in kept], dtype=torch.long)
    dets[: len(kept), :4] = boxes[index].to(dets)
    dets[: len(kept), 4] = torch.tensor([score for _, score in kept]).to(dets)
    return index


def lower_scores(
    scores: list[float], neighbors: list[list[tuple[int, float]]], min_score: float
) -> list[tuple[int, float]]:
    """Take the best box, multiply the scores of its neighbors, and repeat.

    The indices and the new scores are by descending score. The best box is always kept.
    """
    best = max(scores, default=0)
    waiting = {at: score for at, score in enumerate(scores) if score >= min(min_score, best)}
    heap = [(-score, at) for at, score in waiting.items()]
    heapify(heap)
    kept = []
    while heap:
        score, at = heappop(heap)
        if waiting.get(at) != -score:
            continue  # it was lowered or removed since
        kept.append((at, waiting.pop(at)))
        for neighbor, factor in neighbors[at]:
            if neighbor in waiting:
                lowered = waiting.pop(neighbor) * factor
                if lowered >= min_score:
                    waiting[neighbor] = lowered
                    heappush(heap, (-lowered, neighbor))
    return kept


def with_offset(boxes: Tensor, offset: int) -> Tensor:
    """Move the right and lower edges, so that sizes are differences."""
    return boxes + boxes.new_tensor([0, 0, offset, offset]) if offset else boxes


def overlapping_pairs(
    boxes: Tensor, iou_threshold: float, *, inclusive: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the indices i < j and the IoU of the pairs of boxes above the threshold, (P,) each."""
    if iou_threshold <= 0:
        order = torch.arange(len(boxes), device=boxes.device)
        first, second = torch.triu_indices(len(boxes), len(boxes), 1, device=boxes.device)
    else:
        order = boxes[:, 0].argsort()
        first, second = pairs_along_x(boxes[order], iou_threshold)
    x1, y1, x2, y2 = edges = boxes[order].T.contiguous()
    rows = torch.cat([edges, ((x2 - x1) * (y2 - y1))[None]])
    a, b = rows.index_select(1, first), rows.index_select(1, second)
    width = (torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0])).clamp_(min=0)
    height = (torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1])).clamp_(min=0)
    inter = width * height
    iou = inter / (a[4] + b[4] - inter)  # NaN for two boxes without an area
    near = (iou >= iou_threshold if inclusive else iou > iou_threshold).nonzero().squeeze(1)
    first, second = order[first[near]], order[second[near]]
    return torch.minimum(first, second), torch.maximum(first, second), iou[near]


def pairs_along_x(boxes: Tensor, iou_threshold: float) -> tuple[Tensor, Tensor]:
    """Return the pairs of boxes, sorted by x1, whose widths overlap enough for the threshold.

    Boxes of different classes, which mmcv moves apart, are no pairs.
    """
    left, right = boxes[:, 0].contiguous(), boxes[:, 2]
    ranks = torch.arange(len(boxes), device=boxes.device)
    # the IoU is at most the common width by the width of the first; 0.999 for rounding
    limit = right - 0.999 * iou_threshold * (right - left)
    count = (torch.searchsorted(left, limit) - ranks - 1).clamp(min=0)
    first = ranks.repeat_interleave(count)
    shift = (ranks + 1 - count.cumsum(0) + count).repeat_interleave(count)
    return first, torch.arange(len(first), device=boxes.device) + shift


def remove(pairs: tuple[Tensor, Tensor, Tensor], num_boxes: int) -> list[int | None]:
    """Return for each box, by descending score, the one that removes it, None if it is kept."""
    first, second, _ = pairs
    order = (first * num_boxes + second).argsort()
    removers: list[int | None] = [None] * num_boxes
    for better, worse in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if removers[better] is None and removers[worse] is None:
            removers[worse] = better
    return removers
