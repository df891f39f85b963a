"""Results of a predictor as NumPy arrays, in pixels of the original image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require

if TYPE_CHECKING:
    from mmengine.structures import BaseDataElement
    from supervision import Detections as Supervised


@dataclass(frozen=True)
class Detections:
    """The detections in an image, in descending order of their scores.

    Args:
        path: The file; None for an array.
        frame: Number of the frame of a video, from 0; None for an image.
        boxes: (N, 4) float32: left, top, right, bottom, in pixels of the original image.
        scores: (N,) float32, in [0, 1].
        labels: (N,) int64, indices into ``classes``.
        classes: Class names by label.
        masks: (N, H, W) bool; None for a detector without masks.
    """

    path: Path | None
    frame: int | None
    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    masks: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def names(self) -> list[str]:
        """The class name of every detection."""
        return [name_of(label, self.classes) for label in self.labels]

    def above(self, score_thr: float) -> 'Detections':
        """The detections with at least this score."""
        return self.select(self.scores >= score_thr)

    def select(self, kept: np.ndarray) -> 'Detections':
        """The detections where ``kept``, (N,) bool, is true."""
        return replace(
            self,
            boxes=self.boxes[kept],
            scores=self.scores[kept],
            labels=self.labels[kept],
            masks=None if self.masks is None else self.masks[kept],
        )

    def within(self, size: tuple[int, int]) -> 'Detections':
        """Clip boxes, some of which end in padding, to an image of (H, W); without empty ones."""
        boxes = self.boxes.clip(0, np.array(size[::-1] * 2, np.float32))
        return replace(self, boxes=boxes).select((boxes[:, 2:] > boxes[:, :2]).all(1))

    def to_supervision(self) -> 'Supervised':
        """Convert to ``supervision.Detections``, with the names as ``class_name``.

        Raises:
            UserError: If supervision is not installed.
        """
        return require('supervision').Detections(
            xyxy=self.boxes,
            mask=self.masks,
            confidence=self.scores,
            class_id=self.labels,
            data=dict(class_name=np.array(self.names, dtype=str)),
        )


@dataclass(frozen=True)
class LabelMap:
    """The class of every pixel of an image.

    Args:
        path: The file; None for an array.
        frame: Number of the frame of a video, from 0; None for an image.
        labels: (H, W) int64, indices into ``classes``.
        classes: Class names by label.
    """

    path: Path | None
    frame: int | None
    labels: np.ndarray
    classes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the classes in the image, in the order of their labels."""
        return [name_of(label, self.classes) for label in np.unique(self.labels)]

    def to_supervision(self) -> 'Supervised':
        """Convert to ``supervision.Detections`` with a mask and a box per class in the image.

        Raises:
            UserError: If supervision is not installed.
        """
        found = np.unique(self.labels)
        masks = self.labels[None] == found[:, None, None]  # (classes, H, W)
        return require('supervision').Detections(
            xyxy=np.array([box_of(mask) for mask in masks], np.float32),
            mask=masks,
            class_id=found,
            data=dict(class_name=np.array(self.names, dtype=str)),
        )


@dataclass(frozen=True)
class ClassScores:
    """The scores of an image for every class.

    Args:
        path: The file; None for an array.
        frame: Number of the frame of a video, from 0; None for an image.
        scores: (classes,) float32, in [0, 1].
        classes: Class names by label.
    """

    path: Path | None
    frame: int | None
    scores: np.ndarray
    classes: tuple[str, ...]

    @property
    def labels(self) -> np.ndarray:
        """All labels in descending order of their scores."""
        return np.argsort(-self.scores, kind='stable')

    @property
    def names(self) -> list[str]:
        """The class names in descending order of their scores."""
        return [name_of(label, self.classes) for label in self.labels]

    def above(self, score_thr: float, limit: int) -> np.ndarray:
        """The best labels with at least this score, and the best one anyway."""
        best = self.labels[:limit]
        return best[: max(int((self.scores[best] >= score_thr).sum()), 1)]


Result = Detections | LabelMap | ClassScores


def make_result(sample: 'BaseDataElement', classes: tuple[str, ...]) -> Result:
    """Convert predictions of mmdet, mmseg or mmpretrain, on the CPU, to NumPy arrays.

    Raises:
        UserError: If they are others, such as panoptic ones.
    """
    if 'pred_score' in sample:
        return ClassScores(None, None, sample.pred_score.numpy().astype(np.float32), classes)
    if 'pred_sem_seg' in sample:
        labels = sample.pred_sem_seg.data[0].numpy().astype(np.int64)
        return LabelMap(None, None, labels, classes)
    if 'pred_instances' not in sample:
        raise UserError(
            f'the model returns {", ".join(sample.keys())}; only models of objects, of label maps '
            'and of classes are supported'
        )
    found = sample.pred_instances
    found = found[found.scores.argsort(descending=True, stable=True)]
    boxes = found.bboxes.numpy().astype(np.float32)
    masks = found.masks.numpy().astype(bool) if 'masks' in found else None
    if masks is not None and not boxes.any():  # of SOLO and its successors
        boxes = np.array([box_of(m) if m.any() else (0,) * 4 for m in masks], np.float32)
        boxes = boxes.reshape(-1, 4)
    detections = Detections(
        path=None,
        frame=None,
        boxes=boxes,
        scores=found.scores.numpy().astype(np.float32),
        labels=found.labels.numpy().astype(np.int64),
        classes=classes,
        masks=masks,
    )
    return detections.within(sample.ori_shape[:2])


def name_of(label: int, classes: Sequence[str]) -> str:
    """The name of a class, or its label if it has no name."""
    return classes[label] if 0 <= label < len(classes) else str(label)


def box_of(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the true pixels of (H, W)."""
    (rows,), (columns,) = mask.any(axis=1).nonzero(), mask.any(axis=0).nonzero()
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
