"""Agreement of two versions of a model on the same images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.boxes import match_objects, pairwise_iou

Outputs = dict[str, NDArray]  # by name

OBJECTS = ('boxes', 'scores', 'labels')
MATCHED, OVERLAP, NOISE = 'matched objects', 'mean IoU of the boxes', 'signal-to-noise ratio, dB'
EQUAL, LABELS, MASKS = 'pixel agreement', 'mean IoU of the label maps', 'mean IoU of the masks'
MINIMA = {MATCHED: 0.9, MASKS: 0.8, EQUAL: 0.95, NOISE: 15.0}


class DisagreementError(UserError):
    """A file disagrees with its model."""


@dataclass(frozen=True)
class Measure:
    """One measure of the agreement of two versions of a model."""

    kind: str
    value: float
    minimum: float = -math.inf  # lowest value of versions that agree
    maximum: float = math.inf  # highest value of versions that agree
    output: str = ''  # its name, if several are compared

    @property
    def name(self) -> str:
        return f'{self.output}: {self.kind}' if self.output else self.kind

    @property
    def is_limited(self) -> bool:
        return math.isfinite(self.minimum) or math.isfinite(self.maximum)

    @property
    def agrees(self) -> bool:
        return not self.is_limited or self.minimum <= self.value <= self.maximum  # not for NaN

    @property
    def margin(self) -> float:
        """Distance to the limit, relative to it; negative beyond it."""
        if math.isnan(self.value):
            return -math.inf
        if math.isfinite(self.minimum):
            return (self.value - self.minimum) / max(abs(self.minimum), 1e-12)
        return (self.maximum - self.value) / max(self.maximum, 1e-12)

    @property
    def shown(self) -> str:
        """The value as it is printed."""
        return self._format(self.value)

    def _format(self, value: float) -> str:
        if self.kind in (MATCHED, EQUAL):
            return f'{100 * value:.3g} %'
        return f'{value:.3g}' if value % 1 else f'{value:.0f}'

    def __str__(self) -> str:
        is_lower = math.isfinite(self.minimum)
        limit = self._format(self.minimum if is_lower else self.maximum)
        bound = f'minimum {limit}' if is_lower else f'limit {limit}'
        return f'{self.name} {self.shown}' + (f' ({bound})' if self.is_limited else '')


def worst(measures: Sequence[Measure], by: str = 'kind') -> list[Measure]:
    """Of every limited kind, or name, the measure closest to its limit, or farthest beyond it."""
    found: dict[str, Measure] = {}
    for each in measures:
        known = found.get(getattr(each, by))
        if each.is_limited and (known is None or each.margin < known.margin):
            found[getattr(each, by)] = each
    return list(found.values())


def largest_error(expected: NDArray, found: NDArray) -> float:
    """Largest difference relative to the largest value; ValueError if the shapes differ."""
    if expected.shape != found.shape:
        raise ValueError(f'an output has shape {found.shape} instead of {expected.shape}')
    error = np.abs(found.astype(np.float64) - expected).max()
    return float(error / max(np.abs(expected).max(), 1e-12)) if np.isfinite(error) else np.inf


def signal_to_noise(expected: Sequence[NDArray], found: Sequence[NDArray]) -> float:
    """Signal-to-noise ratio: power of the values over the power of the differences, in dB."""
    signal = sum(float(np.square(m, dtype=np.float64).sum()) for m in expected)
    pairs = zip(expected, found, strict=True)
    noise = sum(float(np.square(f.astype(np.float64) - e).sum()) for e, f in pairs)
    return 10 * float(np.log10(max(signal, 1e-30) / max(noise, 1e-30)))


def cosine(expected: NDArray, found: NDArray) -> float:
    one, other = expected.astype(np.float64).ravel(), found.astype(np.float64).ravel()
    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-30))


def label_agreement(
    expected: Sequence[NDArray], found: Sequence[NDArray], minimum: float
) -> list[Measure]:
    """Fraction of pixels with equal labels, and mean IoU over the classes in either map."""
    classes = int(max(m.max() for m in (*expected, *found))) + 1
    counts = np.zeros((classes, classes), dtype=np.int64)
    for one, other in zip(expected, found, strict=True):
        pairs = one.astype(np.int64).ravel() * classes + other.astype(np.int64).ravel()
        counts += np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    same = counts.diagonal()
    union = counts.sum(0) + counts.sum(1) - same
    return [
        Measure(EQUAL, float(same.sum() / counts.sum()), minimum),
        Measure(LABELS, float((same[union > 0] / union[union > 0]).mean())),
    ]


def object_agreement(
    expected: Sequence[Outputs],
    found: Sequence[Outputs],
    score_thr: float,
    minima: dict[str, float],
    mask_thr: float,
) -> list[Measure]:
    """Agreement of detected objects, with one image (B = 1) per entry.

    ``objects`` counts those with a score of at least ``score_thr`` in ``expected``; ``new objects``
    counts those in ``found`` that match no object in ``expected`` at any score. Masks are compared
    in their boxes. Without any object to compare, they do not agree.
    """
    count = new = 0
    differences, overlaps, masks = [], [], []
    for one, other in zip(map(without_empty, expected), map(without_empty, found), strict=True):
        pairs = match_above(one, other, score_thr)
        count += int((one['scores'] >= score_thr).sum())
        above = int((other['scores'] >= score_thr).sum())
        new += above - len(match_above(other, one, score_thr))
        iou = pairwise_iou(one['boxes'], other['boxes'])
        differences += [abs(float(one['scores'][i] - other['scores'][j])) for i, j in pairs]
        overlaps += [float(iou[i, j]) for i, j in pairs]
        if 'masks' in one:
            parts = ((one['masks'][i], other['masks'][j]) for i, j in pairs)
            masks += [mask_iou(*(part >= mask_thr for part in pair)) for pair in parts]
    measures = [
        Measure('objects', count),
        Measure(MATCHED, len(differences) / count if count else np.nan, minima[MATCHED]),
        Measure('new objects', new, maximum=math.ceil((1 - minima[MATCHED]) * count)),
        Measure('largest score difference', max(differences, default=np.nan)),
        Measure('mean score difference', float(np.mean(differences)) if differences else np.nan),
        Measure(OVERLAP, float(np.mean(overlaps)) if overlaps else np.nan),
    ]
    if masks:
        measures.append(Measure(MASKS, float(np.mean(masks)), minima[MASKS]))
    return measures


def mask_iou(one: NDArray, other: NDArray) -> float:
    """IoU of two masks (h, w) bool; 1 if both are empty."""
    union = np.count_nonzero(one | other)
    return float(np.count_nonzero(one & other) / union) if union else 1.0


def match_above(expected: Outputs, found: Outputs, score_thr: float) -> list[tuple[int, int]]:
    """Pairs of objects above a score and matching objects at any score.

    An object whose score only drops below the threshold is still found.
    """
    allowed = (expected['scores'][:, None] >= score_thr) & (found['scores'][None] > 0)
    return match_objects(expected, found, allowed)


def without_empty(outputs: Outputs) -> Outputs:
    """The objects of an image, or of a batch of one, without empty entries."""
    filled = outputs['scores'] > 0
    return {name: outputs[name][filled] for name in (*OBJECTS, 'masks') if name in outputs}


def agreement(
    expected: Sequence[Outputs],
    found: Sequence[Outputs],
    score_thr: float = 0.3,
    minimum: float | None = None,
    mask_thr: float = 0.5,
) -> list[Measure]:
    """Measures of agreement of objects, label maps, or other values.

    Args:
        expected: Outputs of the reference version, one entry per image.
        found: Outputs of the other version.
        score_thr: Minimum score of the counted objects of ``expected``.
        minimum: Minimum of all limited measures, by default :data:`MINIMA`.
        mask_thr: Minimum probability of a mask's pixels.
    """
    minima = MINIMA if minimum is None else dict.fromkeys(MINIMA, minimum)
    if set(OBJECTS) <= set(expected[0]):
        return object_agreement(expected, found, score_thr, minima, mask_thr)
    measures: list[Measure] = []
    for name in expected[0]:
        one, other = ([outputs[name] for outputs in version] for version in (expected, found))
        if np.issubdtype(one[0].dtype, np.floating):
            cosines = [cosine(a, b) for a, b in zip(one, other, strict=True)]
            measures.append(Measure('lowest cosine similarity', min(cosines), output=name))
            noise = signal_to_noise(one, other)
            measures.append(Measure(NOISE, noise, minima[NOISE], output=name))
        else:
            measures += label_agreement(one, other, minima[EQUAL])
    return measures


def fidelity(measures: Sequence[Measure]) -> float:
    """One number for measures of :func:`agreement`, to compare versions of a model.

    This is the panoptic quality of the objects (arXiv:1801.00868, equation 1) with the reference
    version as ground truth, the mean IoU of the label maps, or the lowest signal-to-noise ratio.
    """
    values = {each.kind: each.value for each in measures}
    if 'objects' in values:
        count, new = values['objects'], values['new objects']
        matched = count * values[MATCHED] if count else 0
        overlap = values[OVERLAP] * matched if matched else 0
        return overlap / max((matched + count + new) / 2, 1)  # TP + FP / 2 + FN / 2
    if LABELS in values:
        return values[LABELS]
    return min(each.value for each in measures if each.kind == NOISE)
