"""Run an exported model on images, using only its runtime, numpy, OpenCV and Pillow."""

import os
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.errors import UserError
from mmeffvit.inference.coco_ids import CocoIds
from mmeffvit.inference.predictor import BasePredictor
from mmeffvit.inference.results import ClassScores, Detections, LabelMap, Result
from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.utils.text import counted

from .last_steps import last_steps
from .metadata import parse_metadata
from .resizing import Resized, fixed_size, read, resize, to_batch
from .sessions import MAX_LABELS, check_labels


class ExportedPredictor(BasePredictor):
    """A detector, segmentor or classifier for inference, from a file of ``mmeffvit export``.

    ``ExportedPredictor('model.onnx')('photo.jpg', out_dir='out')``

    It is called as :class:`mmeffvit.Predictor` and returns the same results, but needs neither
    torch nor mmengine.

    Args:
        path: A file for ONNX Runtime (``.onnx``), OpenVINO (``.xml``), LiteRT (``.tflite``) or ncnn
            (``.param``).
        threads: Number of threads of the runtime; None for its default.
        device: 'cpu', or for ONNX a GPU as 'cuda' or 'cuda:N', with onnxruntime-gpu.

    Attributes:
        metadata: Metadata of the file, see :class:`mmeffvit.deploy.runtime.metadata.Metadata`.
        classes: Class names by label.

    Raises:
        UserError: If the file is missing, invalid, or was not written by ``mmeffvit export``, or
            its runtime cannot use the device.
    """

    def __init__(
        self, path: str | os.PathLike, *, threads: int | None = None, device: str = 'cpu'
    ) -> None:
        self.session = open_model(path, threads or 0, device=device)
        self.metadata = parse_metadata(self.session.metadata)
        if 'resize' not in self.session.metadata or self.metadata.task == 'features':
            raise UserError(
                f'{path} is for {self.metadata.task or "an unknown task"}; use a file of a format '
                'with metadata, written by `mmeffvit export` without --backbone-only'
            )
        outputs = set(self.session.outputs)
        self.is_classifier = self.metadata.task == 'classification'
        self.is_detector = not outputs & {'label_map', 'logits'} and not self.is_classifier
        if self.is_detector and not outputs >= set(OBJECTS[:2]):
            raise UserError(f'{path} returns {", ".join(self.session.outputs)}, neither objects '
                            'nor a label map')  # fmt: skip
        if self.is_classifier and outputs != {'scores'}:
            raise UserError(f'{path} returns {", ".join(self.session.outputs)}, not scores')
        self.classes = self.metadata.classes
        self.colors = self.metadata.palette
        self.label_offset = self.metadata.label_offset
        self.fixed = fixed_size(self.session.shape)

    def read(self, path: Path) -> NDArray:
        """Read an image: (H, W, 3) BGR."""
        read_size(path)
        try:
            return read(path, self.metadata)
        except UserError as error:
            raise Unreadable(str(error)) from error

    def prepare(self, image: NDArray, path: Path) -> Resized:
        """Resize an image as the test pipeline of the config does."""
        return resize(image, self.metadata.resize, self.fixed, self.metadata.fill)

    def batch_key(self, prepared: Resized) -> Hashable:
        """The size after resizing."""
        return prepared.image.shape

    def coco_ids(self) -> CocoIds:
        """Category ids of the config's annotation file at the time of the export."""
        known = self.metadata.category_ids
        source = 'from the exported file' if known else 'label + 1 (the file has none)'
        return CocoIds(known, source)

    def predict(self, batch: Sequence[Resized]) -> list[Result]:
        """Predict on resized images of one size."""
        count = self.session.shape[0]
        count = count if isinstance(count, int) else len(batch)
        results: list[Result] = []
        for start in range(0, len(batch), count):
            part = batch[start : start + count]
            images = [resized.image for resized in part]
            filled = to_batch([*images, *images[:1] * (count - len(part))])
            outputs = last_steps(self.session.run(filled), self.metadata, filled.shape[2:])
            if self.is_classifier:
                check_scores(outputs['scores'], count, len(self.classes))
            for i, resized in enumerate(part):
                one = {name: values[i] for name, values in outputs.items()}
                results.append(self._result(one, resized))
        return results

    def _result(self, outputs: dict[str, NDArray], resized: Resized) -> Result:
        """The outputs in pixels of the original image."""
        if self.is_classifier:
            return ClassScores(None, None, outputs['scores'], self.classes)
        size = resized.original
        if 'label_map' in outputs:
            height, width = resized.content
            label_map = self._checked(outputs['label_map'][:height, :width])
            return LabelMap(None, None, resize_nearest(label_map, size), self.classes)
        filled = outputs['scores'] > 0
        boxes = outputs['boxes'][filled] / np.tile(resized.factors, 2).astype(np.float32)
        if not np.isfinite(boxes).all():
            raise UserError('the file returns boxes that are not finite')
        masks = None
        if 'masks' in outputs:
            masks = np.zeros((len(boxes), *size), dtype=bool)
            for i, mask in enumerate(outputs['masks'][filled]):
                masks[i] = paste_mask(mask, boxes[i], size, self.metadata.mask_threshold)
        labels = self._checked(outputs['labels'][filled])
        scores = outputs['scores'][filled]
        return Detections(None, None, boxes, scores, labels, self.classes, masks).within(size)

    def _checked(self, labels: NDArray) -> NDArray:
        """Labels as int64; UserError if one cannot be the label of a class."""
        check_labels(labels, len(self.metadata.category_ids) or MAX_LABELS)
        return labels.astype(np.int64)


def check_scores(scores: NDArray, count: int, num_classes: int) -> None:
    """Raise UserError if these are not the scores of the classes of ``count`` images."""
    classes = (num_classes,) if num_classes else scores.shape[1:2]  # a file may have no names
    if scores.dtype.kind != 'f' or not scores.size or scores.shape != (count, *classes):
        raise UserError(
            f'the file returns scores of shape {scores.shape} and type {scores.dtype}; it must '
            f'return floats for {counted(count, "image")} and {counted(num_classes, "class")}'
        )
    if not np.isfinite(scores).all():
        raise UserError('the file returns scores that are not finite')


def resize_nearest(labels: NDArray, size: tuple[int, int]) -> NDArray:
    """Resize (H, W) to ``size``: each pixel takes the label at its center.

    OpenCV's INTER_NEAREST reads at its corner, which shifts maps by up to half a pixel.
    """
    rows, columns = (
        (2 * np.arange(after) + 1) * before // (2 * after)
        for before, after in zip(labels.shape, size, strict=True)
    )
    return labels[rows[:, None], columns]


def paste_mask(
    mask: NDArray, box: NDArray, shape: tuple[int, int], threshold: float = 0.5
) -> NDArray:
    """Resize the mask of a box bilinearly to its pixels, like Mask R-CNN.

    The probability of a pixel is interpolated at its center, with zeros outside the grid.

    Shape:
        mask (M, M): probabilities on a grid over the box; box (4,): left, top, right and bottom, in
        pixels -> (H, W) of the image, whether the probability is at least ``threshold``.
    """
    left, top, right, bottom = (float(value) for value in box)
    columns, x = interpolation(left, right, shape[1], mask.shape[1])
    rows, y = interpolation(top, bottom, shape[0], mask.shape[0])
    pasted = np.zeros(shape, dtype=bool)
    pasted[rows, columns] = y @ mask @ x.T >= threshold
    return pasted


def interpolation(start: float, end: float, side: int, cells: int) -> tuple[slice, NDArray]:
    """The pixels from ``start`` to ``end``, and their interpolation weights for the cells."""
    first = min(max(int(np.floor(start)) - 1, 0), side)
    last = max(min(int(np.ceil(end)) + 1, side), first)
    centers = np.arange(first, last, dtype=np.float32) + 0.5
    positions = (centers - start) / max(end - start, 1e-6) * cells - 0.5
    weights = 1 - np.abs(positions[:, None] - np.arange(cells))
    return slice(first, last), np.clip(weights, 0, None).astype(np.float32)
