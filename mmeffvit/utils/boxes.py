"""IoU and NMS of boxes, and matching of the objects of two predictions."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

MATCH_IOU = 0.5


def pairwise_iou(boxes: NDArray, others: NDArray) -> NDArray:
    """IoU of every pair: (N, 4), (M, 4) -> (N, M)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (boxes, others)]
    return common / np.maximum(areas[0][:, None] + areas[1][None] - common, 1e-9)


def match_objects(
    expected: Mapping[str, NDArray], found: Mapping[str, NDArray], allowed: NDArray
) -> list[tuple[int, int]]:
    """Pairs of objects of one image with the same label and an IoU of at least :data:`MATCH_IOU`.

    Like evaluation's, matching is greedy in the order of scores, and every object is matched once.

    Args:
        expected: ``boxes`` (N, 4), ``scores`` (N,) and ``labels`` (N,).
        found: The same for M objects.
        allowed: Which pairs are allowed, broadcastable to (N, M).
    """
    overlaps = pairwise_iou(expected['boxes'], found['boxes'])
    overlaps[expected['labels'][:, None] != found['labels'][None]] = 0
    overlaps = np.where(allowed, overlaps, 0)
    pairs = []
    for row in np.argsort(-expected['scores'], kind='stable') if overlaps.size else ():
        column = int(overlaps[row].argmax())
        if overlaps[row, column] >= MATCH_IOU:
            pairs.append((int(row), column))
            overlaps[:, column] = 0
    return pairs


def post_process(
    boxes: NDArray,
    scores: NDArray,
    threshold: float,
    iou_threshold: float,
    *,
    limit: int | None = None,
    by_class: bool = True,
) -> tuple[NDArray, NDArray, NDArray]:
    """At most ``limit`` objects of the boxes (N, 4) and scores (N, classes) of all priors.

    The best come first; empty boxes are none. NMS is class-wise, unless ``by_class`` is false.
    """
    is_filled = (boxes[:, 2:] > boxes[:, :2]).all(axis=1, keepdims=True)
    prior, label = np.nonzero((scores > threshold) & is_filled)
    order = np.argsort(-scores[prior, label], kind='stable')
    prior, label, kept = prior[order], label[order], []
    boxes, scores = boxes[prior], scores[prior, label]
    is_left = np.ones(len(boxes), bool)
    while is_left.any() and len(kept) != limit:
        best = int(is_left.argmax())
        kept.append(best)
        is_left[best] = False
        rivals = np.flatnonzero(is_left & (label == label[best]) if by_class else is_left)
        is_left[rivals] = pairwise_iou(boxes[best][None], boxes[rivals])[0] <= iou_threshold
    return boxes[kept], scores[kept], label[kept]
