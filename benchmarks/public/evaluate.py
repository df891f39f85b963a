"""One evaluator for all: pycocotools for boxes, a confusion matrix for label maps."""

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from .data import IGNORED, Located, Sample, as_coco, label_map


def evaluate(found: Located, predictions: Path) -> dict[str, float]:
    """The metrics of predictions of the test split, in percent: AP and AP50, or mIoU; per class."""
    samples = found.splits['test']
    if found.about.task == 'detection':
        rows = json.loads((predictions / 'predictions.json').read_text())
        return box_metrics(samples, rows, found.about.classes)
    maps = [
        cv2.imread(str(predictions / 'results' / f'{sample.image.stem}.png'), cv2.IMREAD_UNCHANGED)
        for sample in samples
    ]
    truth = [label_map(sample.annotation) for sample in samples]
    return map_metrics(truth, maps, found.about.classes)


def box_metrics(
    samples: Sequence[Sample], rows: Sequence[dict], classes: Sequence[str]
) -> dict[str, float]:
    """Box AP as COCO defines it.

    Args:
        samples: The images in their order.
        rows: Boxes with ``file_name``, ``category_id`` from 1, ``bbox`` and ``score``.
        classes: Class names.
    """
    content = as_coco(samples)
    ids = {image['file_name']: image['id'] for image in content['images']}
    found = [
        dict(image_id=ids[row['file_name']], category_id=row['category_id'] - 1,
             bbox=row['bbox'], score=row['score'])
        for row in rows
    ]  # fmt: skip
    if not found:
        return dict.fromkeys(('AP', 'AP50', *classes), 0.0)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = content
        truth.createIndex()
        evaluator = COCOeval(truth, truth.loadRes(found), 'bbox')
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    precision = evaluator.eval['precision'][:, :, :, 0, -1]  # (thresholds, recalls, classes)
    per_class = {
        name: 100 * float(values[values >= 0].mean()) if (values >= 0).any() else 0.0
        for name, values in zip(classes, precision.transpose(2, 0, 1), strict=True)
    }
    return dict(AP=100 * evaluator.stats[0], AP50=100 * evaluator.stats[1], **per_class)


def map_metrics(
    truth: Sequence[np.ndarray], maps: Sequence[np.ndarray], classes: Sequence[str]
) -> dict[str, float]:
    """IoU of each class over all pixels that are not void, and the mean."""
    number = len(classes)
    confusion = np.zeros((number, number + 1), np.int64)  # the last column: no class of the set
    for wanted, found in zip(truth, maps, strict=True):
        assert wanted.shape == found.shape, (wanted.shape, found.shape)
        counted = wanted != IGNORED
        pairs = wanted[counted].astype(np.int64) * (number + 1) + found[counted].clip(max=number)
        confusion += np.bincount(pairs, minlength=confusion.size).reshape(confusion.shape)
    union = confusion.sum(0)[:number] + confusion.sum(1) - confusion.diagonal()
    ious = 100 * confusion.diagonal() / np.maximum(union, 1)
    return dict(mIoU=float(ious.mean()), **dict(zip(classes, ious.tolist(), strict=True)))
