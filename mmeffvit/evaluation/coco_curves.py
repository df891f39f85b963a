"""COCO's metric of one class, with more and more error types ignored."""

from typing import Any

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mmeffvit.utils.quiet import quiet

from .coco_results import FIELDS

# C75, C50: correct at this IoU; the others: with one more error type ignored
CURVES = ('C75', 'C50', 'Loc', 'Sim', 'Oth', 'BG', 'FN')
SIZES = ('all', 'small', 'medium', 'large')
IOUS = (0.75, 0.5, 0.1)  # of C75, C50 and Loc
MAX_DETECTIONS = 100  # per image and class


class ErrorEval(COCOeval):
    """COCO's metric of one class, with two more rows that ignore confusions with other classes.

    Objects of other classes are treated as crowd regions: a detection that is not correct at the
    last IoU and has at least this fraction of its area on one is ignored, in row 3 for similar
    classes, in row 4 for all.
    """

    rows = (0, 1, 2, 2, 2)  # indices into IOUS for C75, C50, Loc, Sim and Oth

    def __init__(self, truth: COCO, found: COCO, iou_type: str, category: int) -> None:
        super().__init__(truth, found, iou_type)
        self.params.catIds = [category]
        self.params.iouThrs = list(IOUS)
        self.params.maxDets = [MAX_DETECTIONS]
        self.params.areaRngLbl = list(SIZES)
        self.similar = similar_to(category, truth)
        self.confused: dict[int, np.ndarray] = {}  # by detection: with similar classes, with any

    def computeIoU(self, image: int, category: int) -> np.ndarray | list:  # noqa: N802
        found = self._dts[image, category]
        others = [o for o in self.cocoGt.imgToAnns[image] if o['category_id'] != category]
        if found and others:
            field = FIELDS[self.params.iouType]
            shapes = ([item[field] for item in items] for items in (found, others))
            covered = coco_mask.iou(*shapes, [1] * len(others)) >= IOUS[-1]
            similar = np.array([other['category_id'] in self.similar for other in others])
            on_any = np.stack([covered[:, similar].any(axis=1), covered.any(axis=1)], axis=1)
            self.confused |= {d['id']: row for d, row in zip(found, on_any, strict=True)}
        return super().computeIoU(image, category)

    def evaluateImg(self, *arguments: Any) -> dict | None:  # noqa: N802
        result = super().evaluateImg(*arguments)
        if result is None:
            return None
        matches, ignored = (result[key][self.rows, :] for key in ('dtMatches', 'dtIgnore'))
        default = np.zeros(2, dtype=bool)
        confused = [self.confused.get(i, default) for i in result['dtIds']]
        ignored[3:] |= np.array(confused, dtype=bool).reshape(-1, 2).T & (matches[3:] == 0)
        return {**result, 'dtMatches': matches, 'dtIgnore': ignored}

    def precision(self) -> np.ndarray:
        """Precision over recall: (5, 101, sizes), NaN if there are no objects."""
        with quiet():
            self.evaluate()
            self.params.iouThrs = [IOUS[i] for i in self.rows]
            self.accumulate()
        precision = self.eval['precision'][:, :, 0, :, 0]
        return np.where(precision < 0, np.nan, precision)


def similar_to(category: int, truth: COCO) -> frozenset[int]:
    """The other categories of the same supercategory; none if it has no supercategory."""
    parent = truth.cats[category].get('supercategory')
    return frozenset(
        i
        for i, c in truth.cats.items()
        if parent and i != category and c.get('supercategory') == parent
    )


def curves_of(
    truth: COCO, detections: COCO, iou_type: str, category: int, bounds: list[list[float]]
) -> np.ndarray:
    """The curves of one class: (7, 101, 4)."""
    metric = ErrorEval(truth, detections, iou_type, category)
    metric.params.areaRng = bounds
    image_ids = [
        {coco.anns[i]['image_id'] for i in coco.getAnnIds(catIds=[category])}
        for coco in (truth, detections)
    ]
    metric.params.imgIds = sorted(set().union(*image_ids))
    if not metric.params.imgIds:  # neither annotations nor detections of this class
        return np.full((len(CURVES), len(metric.params.recThrs), len(bounds)), np.nan)
    precision = metric.precision()
    oth = precision[-1:]
    background = np.where(np.isnan(oth), np.nan, oth > 0)
    return np.concatenate([precision, background, np.where(np.isnan(oth), np.nan, 1.0)])
