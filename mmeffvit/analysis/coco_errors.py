"""COCO's error analysis of a detector (Hoiem et al., ECCV 2012; seven curves)."""

import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mmeffvit.data.formats.coco_file import as_pycocotools
from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import progress
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import markdown

from .coco_results import FIELDS, Detection, select

# C75, C50: correct at this IoU; the others: with one more error type ignored
CURVES = ('C75', 'C50', 'Loc', 'Sim', 'Oth', 'BG', 'FN')
SIZES = ('all', 'small', 'medium', 'large')
IOUS = (0.75, 0.5, 0.1)  # of C75, C50 and Loc
MAX_DETECTIONS = 100  # per image and class
AREAS = (32**2, 96**2)  # pixels: smallest areas of COCO's medium and large objects
MAX_AREA = 1e10  # pixels: COCO's upper limit for large objects


@dataclass(frozen=True)
class ErrorAnalysis:
    """Precision over recall with more and more error types ignored."""

    iou_type: str  # 'bbox' or 'segm'
    classes: tuple[str, ...]  # in the order of the ids in the annotation file
    objects: np.ndarray  # (K, 4), of every class and size without crowds
    # (7, 101, K, 4), in [0, 1], over ``CURVES``, recalls from 0 to 1, classes and ``SIZES``; NaN
    # for a class without objects of a size
    precision: np.ndarray

    def curves(self, name: str | None = None) -> np.ndarray:
        """Precision of one class, or the mean over classes with objects of a size: (7, 101, 4)."""
        if name is not None:
            return self.precision[:, :, self.classes.index(name)]
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', 'Mean of empty slice')
            return np.nanmean(self.precision, axis=2)

    def areas(self, name: str | None = None) -> np.ndarray:
        """Areas under :meth:`curves`: (7, 4). The areas of C75 and C50 are COCO's AP75 and AP50."""
        return self.curves(name).mean(axis=1)

    def __str__(self) -> str:
        """Tables in Markdown: sizes, costs of the error types, and classes."""
        areas = self.areas()
        totals = self.objects.sum(axis=0)
        sizes = [[size, totals[i], *areas[:, i]] for i, size in enumerate(SIZES)]
        costs = [[size, *np.diff(areas[1:, i])] for i, size in enumerate(SIZES)]
        classes = [
            [name, self.objects[k, 0], *self.areas(name)[:, 0]]
            for k, name in enumerate(self.classes)
        ]

        def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
            return markdown(heading, (list(map(cell, row)) for row in rows))

        return '\n'.join(
            [
                f'# Errors of {"boxes" if self.iou_type == "bbox" else "masks"}\n',
                'Area under the precision-recall curve, by object size.\n',
                table(['size', 'objects', *CURVES], sizes),
                'Cost of every error type: the area gained by ignoring it.\n',
                table(['size', *CURVES[2:]], costs),
                'Classes, all sizes.\n',
                table(['class', 'objects', *CURVES], classes),
            ]
        )

    def save(self, folder: Path) -> None:
        """Write ``errors.md``, and ``errors.json`` with every class at every size."""
        content = dict(
            mean=by_size(self.areas()),
            classes={name: by_size(self.areas(name)) for name in self.classes},
        )
        write_file(folder / 'errors.json', json.dumps(content, indent=2))
        write_file(folder / 'errors.md', str(self))


def by_size(areas: np.ndarray) -> dict[str, dict[str, float | None]]:
    """Areas (7, 4) for JSON, by size and curve."""
    return {
        size: dict(zip(CURVES, map(rounded, areas[:, i]), strict=True))
        for i, size in enumerate(SIZES)
    }


def rounded(value: float) -> float | None:
    """The value for JSON, with None instead of NaN."""
    return None if np.isnan(value) else round(float(value), 4)


def cell(value: object) -> str:
    """The text of a cell: floats have three decimals, NaN is empty."""
    if not isinstance(value, float):
        return str(value)
    return '' if np.isnan(value) else f'{value:.3f}'


def analyze_errors(
    truth: COCO,
    found: Sequence[Detection],
    iou_type: str = 'bbox',
    *,
    areas: Sequence[float] = AREAS,
    score_thr: float = 0.0,
) -> ErrorAnalysis:
    """Compute the seven curves of COCO's error analysis for every class and size.

    - C75, C50: precision at an IoU of 0.75 and 0.5.
    - Loc: at an IoU of 0.1: localization errors are ignored.
    - Sim: in addition, confusions with other classes of the same supercategory are ignored.
    - Oth: in addition, confusions with any other class are ignored.
    - BG: in addition, all other false positives are: precision is 1 up to the largest recall.
    - FN: in addition, missed objects are ignored: precision is 1.

    A category without a supercategory is similar to no other.

    Args:
        truth: Annotations; see :func:`read_ground_truth`.
        found: Detections; see :func:`read_detections`.
        iou_type: 'bbox' or 'segm'.
        areas: Smallest areas of medium and large objects, in pixels.
        score_thr: Detections with a lower score are ignored.

    Raises:
        UserError: If ``areas`` is not ascending, or a detection or an object has no box or mask.
    """
    if not 0 < areas[0] < areas[1] < MAX_AREA:
        raise UserError(
            f'--areas is {areas}; give the areas of medium and large objects in ascending order'
        )
    if not 0 <= score_thr <= 1:
        raise UserError(f'--score-thr is {score_thr}; give a score from 0 to 1')
    chosen = select(found, iou_type, score_thr)
    if iou_type == 'segm':
        encode_masks(truth, [*truth.anns.values(), *chosen])
    detections = load_detections(truth, chosen)
    categories = sorted(truth.cats)
    bounds = [[0, MAX_AREA], [0, areas[0]], [areas[0], areas[1]], [areas[1], MAX_AREA]]
    parts = [
        curves_of(truth, detections, iou_type, category, bounds)
        for category in progress(categories, f'{iou_type}, classes')
    ]
    return ErrorAnalysis(
        iou_type,
        tuple(truth.cats[category]['name'] for category in categories),
        count_objects(truth, bounds),
        np.stack(parts, axis=2),
    )


def encode_masks(truth: COCO, instances: Iterable[Detection]) -> None:
    """Run-length encode all masks in advance, instead of once per class."""
    for instance in instances:
        if not instance.get('segmentation'):
            raise UserError(f'--types segm needs a mask for every object; {instance} has none')
        instance['segmentation'] = truth.annToRLE(instance)


def load_detections(truth: COCO, found: list[Detection]) -> COCO:
    """The detections, indexed by pycocotools; the list may be empty."""
    if not found:
        return as_pycocotools({**truth.dataset, 'annotations': []})
    with quiet():
        return truth.loadRes(found)


def count_objects(truth: COCO, bounds: list[list[float]]) -> np.ndarray:
    """Objects by class and size, (K, 4); COCO counts an area on a limit for both sizes."""
    sizes: dict[int, list[float]] = defaultdict(list)
    for annotation in truth.anns.values():
        if not annotation['iscrowd']:
            sizes[annotation['category_id']].append(annotation['area'])
    rows = [np.array(sizes[category]) for category in sorted(truth.cats)]
    return np.array([[((low <= r) & (r <= high)).sum() for low, high in bounds] for r in rows])


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
    """The other categories of the same supercategory, if it has one."""
    parent = truth.cats[category].get('supercategory')
    same = [i for i, c in truth.cats.items() if parent and c.get('supercategory') == parent]
    return frozenset(same) - {category}


def curves_of(
    truth: COCO, detections: COCO, iou_type: str, category: int, bounds: list[list[float]]
) -> np.ndarray:
    """The curves of one class: (7, 101, 4)."""
    metric = ErrorEval(truth, detections, iou_type, category)
    metric.params.areaRng = bounds
    images = [image for coco in (truth, detections) for image in coco.catToImgs[category]]
    metric.params.imgIds = sorted(set(images))
    if not metric.params.imgIds:  # neither annotations nor detections of this class
        return np.full((len(CURVES), len(metric.params.recThrs), len(bounds)), np.nan)
    precision = metric.precision()
    oth = precision[-1:]
    background = np.where(np.isnan(oth), np.nan, oth > 0)
    return np.concatenate([precision, background, np.where(np.isnan(oth), np.nan, 1.0)])
