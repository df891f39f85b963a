"""Results of a predictor as NumPy arrays, in pixels of the original image."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mmengine.structures import BaseDataElement

from mmeffvit.utils.optional import require

from .frames import Frame

if TYPE_CHECKING:
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
        return [self.classes[label] for label in self.labels]

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
        return [self.classes[label] for label in np.unique(self.labels)]

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


def box_of(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the true pixels of (H, W)."""
    (rows,), (columns,) = mask.any(axis=1).nonzero(), mask.any(axis=0).nonzero()
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


def make_result(
    sample: BaseDataElement, frame: Frame, classes: tuple[str, ...], score_thr: float
) -> Detections | LabelMap:
    """Convert predictions of mmdet or mmseg to NumPy arrays.

    Args:
        sample: The predictions, on the CPU.
        frame: The image.
        classes: Class names by label.
        score_thr: Lowest score of a detection.
    """
    path = frame.source.path if frame.source.path.name else None
    if 'pred_sem_seg' in sample:
        labels = sample.pred_sem_seg.data[0].numpy().astype(np.int64)
        return LabelMap(path, frame.number, labels, classes)
    found = sample.pred_instances
    found = found[found.scores >= score_thr]
    found = found[found.scores.argsort(descending=True, stable=True)]
    return Detections(
        path=path,
        frame=frame.number,
        boxes=found.bboxes.numpy().astype(np.float32),
        scores=found.scores.numpy().astype(np.float32),
        labels=found.labels.numpy().astype(np.int64),
        classes=classes,
        masks=found.masks.numpy().astype(bool) if 'masks' in found else None,
    )
