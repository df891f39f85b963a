"""Run an exported model on images, with its runtime, numpy and OpenCV alone."""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import result_names
from mmeffvit.utils.files import check_output
from mmeffvit.utils.images import read_image, write_image

from .drawing import draw_label_map, draw_objects
from .masks import paste_mask
from .pictures import find_images
from .resizing import Resized, resize
from .sessions import open_model
from .validation import (
    is_color,
    is_names,
    is_number,
    is_palette,
    resize_settings,
    value_of,
)

BLACK = (0, 0, 0)
Image = NDArray  # (H, W, 3), uint8, BGR, as in OpenCV, mmdet and mmseg
Input = str | os.PathLike | Image


class OnnxPredictor:
    """An inferencer like those of mmdet and mmseg, for a file of ``tools/export.py``.

    Args:
        path: An ONNX file, run by ONNX Runtime, or an ``.xml`` of OpenVINO.
        threads: Number of threads of the runtime; None for its default.

    Attributes:
        metadata: Metadata of the file, strings by name.
        classes: Class names by label.

    Raises:
        UserError: If the file is missing, or was not written by ``tools/export.py``.
    """

    def __init__(self, path: str | os.PathLike, threads: int | None = None) -> None:
        self.session = open_model(path, threads or 0)
        self.metadata = dict(self.session.metadata)
        if 'resize' not in self.metadata or self.metadata.get('task') == 'features':
            raise UserError(
                f'{path} is for {self.metadata.get("task", "an unknown task")}; use a file written '
                'by `tools/export.py` without --backbone-only'
            )
        self.classes = tuple(value_of(self.metadata, 'classes', is_names, []))
        self.how = resize_settings(self.metadata)
        mean = value_of(self.metadata, 'mean', is_color, BLACK)
        # 'network_colours' in files of mmeffvit 0.1
        order = self.metadata.get('network_colors') or self.metadata.get('network_colours', 'RGB')
        is_rgb = order == 'RGB'
        self.fill = mean[::-1] if is_rgb else mean  # BGR
        self.mask_threshold = value_of(self.metadata, 'mask_threshold', is_number, 0.5)
        self.outputs = self.session.outputs
        if 'label_map' not in self.outputs and not {'boxes', 'scores', 'labels'} <= set(
            self.outputs
        ):
            raise UserError(f'{path} returns {", ".join(self.outputs)}, neither objects nor a '
                            'label map')  # fmt: skip
        self.palette = self._palette()

    def __call__(
        self,
        inputs: Input | Sequence[Input],
        batch_size: int = 1,
        *,
        show: bool = False,
        out_dir: str | os.PathLike | None = None,
        pred_score_thr: float = 0.3,
        return_vis: bool = False,
    ) -> dict[str, list]:
        """Predict on images.

        Args:
            inputs: An image as a path or an array (H, W, 3), uint8, BGR; a folder; or a list.
            batch_size: Batch size; only consecutive images resized to the same size share a batch.
            show: Show each visualization in a window until a key is pressed.
            out_dir: Output folder; visualizations are written to its subfolder ``vis``, named after
                the inputs. Nothing is written by default.
            pred_score_thr: Score threshold for drawing.
            return_vis: Return the visualizations, (H, W, 3), uint8, RGB.

        Returns:
            ``predictions``, one per image: for a detector `labels`, `scores`, `bboxes` (N, 4) in
            pixels of the image, and `masks` (N, H, W), bool, if it has masks, sorted by score; for
            a segmentor `label_map` (H, W). ``visualization``: the visualizations.

        Raises:
            UserError: If an image cannot be read, or a picture not be written.
        """
        if batch_size < 1:
            raise UserError(f'batch_size is {batch_size}; it starts at 1')
        if out_dir:
            check_output(Path(out_dir, 'vis'), folder=True)
        predictions, pictures = [], []
        items, names = expand(inputs)
        for name, (image, prediction) in zip(names, self._run(items, batch_size), strict=True):
            predictions.append(prediction)
            if not (show or out_dir or return_vis):
                continue
            picture = self.draw(image, prediction, pred_score_thr)
            if out_dir:
                write_image(Path(out_dir, 'vis', name), picture)
            if show:
                cv2.imshow(str(name), picture)
                cv2.waitKey(0)
            if return_vis:
                pictures.append(picture[..., ::-1])
        return {'predictions': predictions, 'visualization': pictures}

    def draw(self, image: Image, prediction: dict[str, Any], score_thr: float = 0.3) -> Image:
        """Draw a prediction into a copy of its image."""
        if 'label_map' in prediction:
            return draw_label_map(image, prediction['label_map'], self.palette)
        return draw_objects(image, prediction, self.classes, self.palette, score_thr)

    def _run(
        self, inputs: Sequence[Input], batch_size: int
    ) -> Iterator[tuple[Image, dict[str, Any]]]:
        """Image and prediction of every input."""
        for size_group in groupby(self._prepare(inputs), key=lambda each: each[1].image.shape):
            waiting: list = []
            for each in size_group[1]:
                waiting.append(each)
                if len(waiting) == batch_size:
                    yield from self._step(waiting)
                    waiting = []
            if waiting:
                yield from self._step(waiting)

    def _prepare(self, inputs: Sequence[Input]) -> Iterator[tuple[Image, Resized]]:
        fixed = self.session.shape[2:]
        fixed = tuple(fixed) if all(isinstance(side, int) for side in fixed) else None
        for item in inputs:
            image = read(item)
            yield image, resize(image, self.how, fixed, self.fill)

    def _step(self, batch: list[tuple[Image, Resized]]) -> Iterator[tuple[Image, dict[str, Any]]]:
        count = self.session.shape[0]
        count = count if isinstance(count, int) else len(batch)
        for start in range(0, len(batch), count):
            part = batch[start : start + count]
            images = np.stack([resized.image for _, resized in part])
            images = np.concatenate([images, *[images[:1]] * (count - len(part))])
            images = images[..., ::-1].transpose(0, 3, 1, 2)  # RGB, (B, 3, H, W)
            images = np.ascontiguousarray(images, dtype=np.float32)
            values = self.session.run(images)
            for i, (image, resized) in enumerate(part):
                outputs = {key: value[i] for key, value in values.items()}
                yield image, self._result(outputs, resized, image.shape[:2])

    def _result(
        self, outputs: dict[str, NDArray], resized: Resized, size: tuple[int, int]
    ) -> dict[str, Any]:
        """The outputs in pixels of the original image."""
        if 'label_map' in outputs:
            height, width = resized.content
            label_map = outputs['label_map'][:height, :width].astype(np.int32)
            label_map = cv2.resize(label_map, size[::-1], interpolation=cv2.INTER_NEAREST)
            return {'label_map': label_map}
        filled = outputs['scores'] > 0
        boxes = outputs['boxes'][filled] / np.tile(resized.factors, 2).astype(np.float32)
        result = {
            'labels': outputs['labels'][filled],
            'scores': outputs['scores'][filled],
            'bboxes': boxes,
        }
        if 'masks' in outputs:
            pasted = [
                paste_mask(mask, box, size, self.mask_threshold)
                for mask, box in zip(outputs['masks'][filled], boxes, strict=True)
            ]
            result['masks'] = np.stack(pasted) if pasted else np.zeros((0, *size), dtype=bool)
        return result

    def _palette(self) -> NDArray:
        """One RGB color per class, from the metadata or random."""
        palette = value_of(self.metadata, 'palette', is_palette, None)
        if palette:
            return np.array(palette, dtype=np.uint8)
        colors = np.random.default_rng(0).integers(32, 256, (max(len(self.classes), 256), 3))
        return colors.astype(np.uint8)


def expand(inputs: Input | Sequence[Input]) -> tuple[list[Input], list[Path]]:
    """Expand folders to their images, with names for the visualizations."""
    items = inputs if isinstance(inputs, list | tuple) else [inputs]
    expanded: list[Input] = []
    names: list[Path] = []
    for item in items:
        if isinstance(item, np.ndarray):
            names.append(Path(f'{len(expanded):08d}'))
            expanded.append(item)
            continue
        folder = Path(item).is_dir()
        found = find_images(item) if folder else [item]
        names += [path.relative_to(item) for path in found] if folder else [Path(Path(item).name)]
        expanded += found
    if len(set(names)) < len(names) and not any(isinstance(i, np.ndarray) for i in expanded):
        paths = [Path(os.path.abspath(path)) for path in expanded]
        common = os.path.commonpath([path.parent for path in paths])
        names = [path.relative_to(common) for path in paths]
    short = [name.with_suffix('.jpg') for name in names]
    return expanded, result_names(names, short, ['.jpg'] * len(names))


def read(item: Input) -> Image:
    """Read an image with OpenCV, or check an array.

    Raises:
        UserError: If it cannot be read, or is not a color image.
    """
    if isinstance(item, np.ndarray):
        if item.ndim != 3 or item.shape[2] != 3 or item.dtype != np.uint8 or not item.size:
            raise UserError(
                f'an image has shape {item.shape} and type {item.dtype}; give (H, W, 3), uint8, BGR'
            )
        return item
    return read_image(item)
