"""What a detector's errors cost: COCO's error analysis (Hoiem et al., ECCV 2012, seven curves)."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pycocotools.coco import COCO

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.progress import progress
from mmeffvit.utils.quiet import quiet

from .coco_curves import CURVES, SIZES, curves_of
from .coco_results import Detection, select

AREAS = (32**2, 96**2)  # pixels: where COCO's medium and large objects begin
MAX_AREA = 1e10  # pixels: COCO's own bound of large objects


@dataclass(frozen=True)
class ErrorAnalysis:
    """Precision over recall as the kinds of errors are left out one after another.

    Args:
        iou_type: 'bbox' or 'segm'.
        classes: Names, in the order of the annotation file's ids.
        objects: Objects of every class and size, crowds left out, (K, 4).
        precision: (7, 101, K, 4), in [0, 1], over ``CURVES``, recalls from 0 to 1, classes and
            ``SIZES``; NaN for a class without an object of the size.
    """

    iou_type: str
    classes: tuple[str, ...]
    objects: np.ndarray
    precision: np.ndarray

    def curves(self, name: str | None = None) -> np.ndarray:
        """Precision of one class, or the mean over classes: (7, 101, 4).

        A class without an object of a size has no part in the mean, as in COCO's AP.
        """
        if name is not None:
            return self.precision[:, :, self.classes.index(name)]
        there = ~np.isnan(self.precision)
        counts = there.sum(axis=2)
        sums = np.where(there, self.precision, 0.0).sum(axis=2)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def areas(self, name: str | None = None) -> np.ndarray:
        """Areas under :meth:`curves`: (7, 4). Those of C75 and C50 are COCO's AP75 and AP50."""
        return self.curves(name).mean(axis=1)

    def __str__(self) -> str:
        """Three tables in Markdown: sizes, what every kind of error costs, and classes."""
        areas = self.areas()
        totals = self.objects.sum(axis=0)
        sizes = [[size, totals[i], *areas[:, i]] for i, size in enumerate(SIZES)]
        costs = [[size, *np.diff(areas[1:, i])] for i, size in enumerate(SIZES)]
        classes = [
            [name, self.objects[k, 0], *self.areas(name)[:, 0]]
            for k, name in enumerate(self.classes)
        ]
        return '\n'.join(
            [
                f'# Errors of {"boxes" if self.iou_type == "bbox" else "masks"}\n',
                'Area under the curve of precision over recall, by size of the objects.\n',
                markdown(['size', 'objects', *CURVES], sizes),
                'What every kind of error costs: the area gained when it counts no more.\n',
                markdown(['size', *CURVES[2:]], costs),
                'Classes, all sizes.\n',
                markdown(['class', 'objects', *CURVES], classes),
            ]
        )

    def save(self, folder: Path) -> None:
        """Write ``errors.md`` and ``errors.json``, which has every class at every size."""
        areas = {name: self.areas(name) for name in self.classes} | {'': self.areas()}
        content = {
            name or 'mean': {
                size: dict(zip(CURVES, map(rounded, values[:, i]), strict=True))
                for i, size in enumerate(SIZES)
            }
            for name, values in areas.items()
        }
        write_file(folder / 'errors.json', json.dumps(content, indent=2))
        write_file(folder / 'errors.md', str(self))


def rounded(value: float) -> float | None:
    """A number that JSON has; None where there is no object."""
    return None if np.isnan(value) else round(float(value), 4)


def markdown(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers have three decimals, and NaN, where there is no object, an empty cell."""

    def cell(value: object) -> str:
        if not isinstance(value, float):
            return str(value)
        return '' if np.isnan(value) else f'{value:.3f}'

    lines = [heading, ['---'] * len(heading), *rows]
    return '\n'.join(f'| {" | ".join(map(cell, line))} |' for line in lines) + '\n'


def analyze_errors(
    truth: COCO,
    found: Sequence[Detection],
    iou_type: str = 'bbox',
    *,
    areas: Sequence[float] = AREAS,
    score_thr: float = 0.0,
) -> ErrorAnalysis:
    """Compute the seven curves of COCO's error analysis for every class and size.

    - C75, C50: precision at an overlap of 0.75 and 0.5.
    - Loc: at an overlap of 0.1: errors of localization are left out.
    - Sim: besides, detections on objects of other classes of the same supercategory are.
    - Oth: besides, detections on objects of any other class are.
    - BG: besides, all other false positives are: precision is 1 up to the largest recall.
    - FN: besides, missed objects are: precision is 1.

    Args:
        truth: Annotations; see :func:`read_ground_truth`. A category without supercategory is
            like no other.
        found: Detections; see :func:`read_detections`.
        iou_type: 'bbox' or 'segm'.
        areas: Where medium and large objects begin, in pixels.
        score_thr: Detections with a lower score are left out.

    Raises:
        UserError: If ``areas`` is not rising, or a detection or an object has no box or no mask.
    """
    if not 0 < areas[0] < areas[1] < MAX_AREA:
        raise UserError(f'--areas is {areas}; give where medium and large begin, in rising order')
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
    """Turn polygons into run-length code once, not once for every class that meets them."""
    for instance in instances:
        if not instance.get('segmentation'):
            raise UserError(f'--types segm needs a mask of every object; {instance} has none')
        instance['segmentation'] = truth.annToRLE(instance)


def load_detections(truth: COCO, found: list[Detection]) -> COCO:
    """The detections as pycocotools indexes them; none at all are fine."""
    if found:
        with quiet():
            return truth.loadRes(found)
    empty = COCO()
    empty.dataset = {**truth.dataset, 'annotations': []}
    with quiet():
        empty.createIndex()
    return empty


def count_objects(truth: COCO, bounds: list[list[float]]) -> np.ndarray:
    """Objects by class and size, (K, 4); one that lies on a bound counts twice, as in COCO."""
    sizes: dict[int, list[float]] = defaultdict(list)
    for annotation in truth.anns.values():
        if not annotation['iscrowd']:
            sizes[annotation['category_id']].append(annotation['area'])
    rows = [np.array(sizes[category]) for category in sorted(truth.cats)]
    return np.array([[((low <= r) & (r <= high)).sum() for low, high in bounds] for r in rows])
