"""Agreement of two versions of a model on the same images."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.boxes import match_objects, pairwise_iou

Outputs = dict[str, NDArray]  # by name

OBJECTS = ('boxes', 'scores', 'labels')
METRIC = 'validation metric, %'
MASK = 0.5  # minimum probability of a mask's pixels


class DisagreementError(UserError):
    """A file disagrees with its model."""


def largest_error(expected: NDArray, found: NDArray) -> float:
    """Largest difference relative to the largest value; for integers, the fraction that differs.

    Raises:
        ValueError: If the shapes differ.
    """
    if expected.shape != found.shape:
        raise ValueError(f'an output has shape {found.shape} instead of {expected.shape}')
    if expected.size == 0:
        return 0.0
    if not np.issubdtype(expected.dtype, np.floating):
        return float((expected != found).mean())
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


def label_agreement(expected: Sequence[NDArray], found: Sequence[NDArray]) -> dict[str, float]:
    """Fraction of pixels with equal labels, and mean IoU over the classes in either map."""
    classes = int(max(m.max() for m in (*expected, *found))) + 1
    counts = np.zeros((classes, classes), dtype=np.int64)
    for one, other in zip(expected, found, strict=True):
        pairs = one.astype(np.int64).ravel() * classes + other.astype(np.int64).ravel()
        counts += np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    same = counts.diagonal()
    union = counts.sum(0) + counts.sum(1) - same
    return {
        'pixel agreement': float(same.sum() / counts.sum()),
        'mean IoU of the label maps': float((same[union > 0] / union[union > 0]).mean()),
    }


def object_agreement(
    expected: Sequence[Outputs], found: Sequence[Outputs], score_thr: float
) -> dict[str, float]:
    """Agreement of detected objects, with one image (B = 1) per entry.

    ``objects`` counts those with a score of at least ``score_thr`` in ``expected``; ``new objects``
    counts those in ``found`` that match no object in ``expected`` at any score. Masks are compared
    in their boxes.
    """
    count = new = 0
    differences, overlaps, masks = [], [], []
    for one, other in zip(map(_image, expected), map(_image, found), strict=True):
        pairs = match_above(one, other, score_thr)
        count += int((one['scores'] >= score_thr).sum())
        above = int((other['scores'] >= score_thr).sum())
        new += above - len(match_above(other, one, score_thr))
        iou = pairwise_iou(one['boxes'], other['boxes'])
        differences += [abs(float(one['scores'][i] - other['scores'][j])) for i, j in pairs]
        overlaps += [float(iou[i, j]) for i, j in pairs]
        if 'masks' in one:
            masks += [mask_iou(one['masks'][i], other['masks'][j]) for i, j in pairs]
    measures = {
        'objects': count,
        'matched objects': len(differences) / count if count else np.nan,
        'new objects': new,
        'largest score difference': max(differences, default=np.nan),
        'mean score difference': float(np.mean(differences)) if differences else np.nan,
        'mean IoU of the boxes': float(np.mean(overlaps)) if overlaps else np.nan,
    }
    return measures | ({'mean IoU of the masks': float(np.mean(masks))} if masks else {})


def mask_iou(one: NDArray, other: NDArray) -> float:
    """IoU of two masks (h, w) of probabilities; 1 if both are empty."""
    one, other = one >= MASK, other >= MASK
    union = np.count_nonzero(one | other)
    return float(np.count_nonzero(one & other) / union) if union else 1.0


def match_above(expected: Outputs, found: Outputs, score_thr: float) -> list[tuple[int, int]]:
    """Pairs of objects above a score and matching objects at any score.

    An object whose score only drops below the threshold is still found.
    """
    allowed = (expected['scores'][:, None] >= score_thr) & (found['scores'][None] > 0)
    return match_objects(expected, found, allowed)


def _image(outputs: Outputs) -> dict[str, NDArray]:
    return {name: outputs[name][0] for name in (*OBJECTS, 'masks') if name in outputs}


def agreement(
    expected: Sequence[Outputs], found: Sequence[Outputs], score_thr: float = 0.3
) -> dict[str, float]:
    """Measures of agreement of objects, label maps, or other values.

    Args:
        expected: Outputs of the reference version, one entry per image.
        found: Outputs of the other version.
        score_thr: Minimum score of the counted objects of ``expected``.
    """
    if set(OBJECTS) <= set(expected[0]):
        return object_agreement(expected, found, score_thr)
    measures = {}
    for name in expected[0]:
        one, other = ([outputs[name] for outputs in version] for version in (expected, found))
        if np.issubdtype(one[0].dtype, np.floating):
            cosines = [cosine(a, b) for a, b in zip(one, other, strict=True)]
            measures[f'{name}: lowest cosine similarity'] = min(cosines)
            measures[f'{name}: signal-to-noise ratio, dB'] = signal_to_noise(one, other)
        else:
            measures |= label_agreement(one, other)
    return measures


def fidelity(measures: Mapping[str, float]) -> float:
    """One number for measures of :func:`agreement`, to compare versions of a model.

    This is the metric on labeled images, if measured. Otherwise it is the panoptic quality of the
    objects (arXiv:1801.00868, equation 1) with the reference version as ground truth, the mean IoU
    of the label maps, or the lowest signal-to-noise ratio.
    """
    if METRIC in measures:
        return measures[METRIC]
    if 'objects' in measures:
        count, new = measures['objects'], measures['new objects']
        matched = count * measures['matched objects'] if count else 0
        overlap = measures['mean IoU of the boxes'] * matched if matched else 0
        return overlap / max((matched + count + new) / 2, 1)  # TP + FP / 2 + FN / 2
    if 'mean IoU of the label maps' in measures:
        return measures['mean IoU of the label maps']
    return min(value for name, value in measures.items() if name.endswith('dB'))
