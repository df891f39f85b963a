"""COCO's metric of one class, as errors of one kind after another count no more."""

from typing import Any

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mmeffvit.utils.quiet import quiet

from .coco_results import FIELDS

# C: correct at an overlap; the others: correct once errors of a kind count no more
CURVES = ('C75', 'C50', 'Loc', 'Sim', 'Oth', 'BG', 'FN')
SIZES = ('all', 'small', 'medium', 'large')
OVERLAPS = (0.75, 0.5, 0.1)  # of C75, C50 and Loc
MAX_DETECTIONS = 100  # in an image, of a class


class ForgivingEval(COCOeval):
    """COCO's metric of one class, with two rows more for detections on objects of other classes.

    These objects are crowd regions to it: a detection that is not correct at the last overlap and
    has that part of its area on one counts no more, in row 3 on similar objects, in row 4 on any.
    """

    rows = (0, 1, 2, 2, 2)  # of the overlaps, for C75, C50, Loc, Sim and Oth

    def __init__(self, truth: COCO, found: COCO, iou_type: str, category: int) -> None:
        super().__init__(truth, found, iou_type)
        self.params.catIds = [category]
        self.params.iouThrs = list(OVERLAPS)
        self.params.maxDets = [MAX_DETECTIONS]
        self.params.areaRngLbl = list(SIZES)
        self.similar = similar_to(category, truth)
        self.forgiven: dict[int, np.ndarray] = {}  # by detection: on a similar object, on any

    def computeIoU(self, image: int, category: int) -> np.ndarray | list:  # noqa: N802
        found = self._dts[image, category]
        others = [o for o in self.cocoGt.imgToAnns[image] if o['category_id'] != category]
        if found and others:
            field = FIELDS[self.params.iouType]
            shapes = ([item[field] for item in items] for items in (found, others))
            covered = coco_mask.iou(*shapes, [1] * len(others)) >= OVERLAPS[-1]
            similar = np.array([other['category_id'] in self.similar for other in others])
            on_any = np.stack([covered[:, similar].any(axis=1), covered.any(axis=1)], axis=1)
            self.forgiven |= {d['id']: row for d, row in zip(found, on_any, strict=True)}
        return super().computeIoU(image, category)

    def evaluateImg(self, *arguments: Any) -> dict | None:  # noqa: N802
        result = super().evaluateImg(*arguments)
        if result is None:
            return None
        matches, ignored = (result[key][self.rows, :] for key in ('dtMatches', 'dtIgnore'))
        nowhere = np.zeros(2, dtype=bool)
        forgiven = [self.forgiven.get(i, nowhere) for i in result['dtIds']]
        ignored[3:] |= np.array(forgiven, dtype=bool).reshape(-1, 2).T & (matches[3:] == 0)
        return {**result, 'dtMatches': matches, 'dtIgnore': ignored}

    def precision(self) -> np.ndarray:
        """Precision over recall: (5, 101, sizes), NaN where there is no object."""
        with quiet():
            self.evaluate()
            self.params.iouThrs = [OVERLAPS[i] for i in self.rows]
            self.accumulate()
        precision = self.eval['precision'][:, :, 0, :, 0]
        return np.where(precision < 0, np.nan, precision)


def similar_to(category: int, truth: COCO) -> frozenset[int]:
    """The other categories of the same supercategory; none without one."""
    kin = truth.cats[category].get('supercategory')
    return frozenset(
        i for i, c in truth.cats.items() if kin and i != category and c.get('supercategory') == kin
    )


def curves_of(
    truth: COCO, detections: COCO, iou_type: str, category: int, bounds: list[list[float]]
) -> np.ndarray:
    """The curves of one class: (7, 101, 4)."""
    metric = ForgivingEval(truth, detections, iou_type, category)
    metric.params.areaRng = bounds
    concerned = [
        {coco.anns[i]['image_id'] for i in coco.getAnnIds(catIds=[category])}
        for coco in (truth, detections)
    ]
    metric.params.imgIds = sorted(set().union(*concerned))
    if not metric.params.imgIds:  # a class that is neither in the data nor found
        return np.full((len(CURVES), len(metric.params.recThrs), len(bounds)), np.nan)
    precision = metric.precision()
    oth = precision[-1:]
    background = np.where(np.isnan(oth), np.nan, oth > 0)
    return np.concatenate([precision, background, np.where(np.isnan(oth), np.nan, 1.0)])
