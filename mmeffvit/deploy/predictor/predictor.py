"""Run an exported model on images, with ONNX Runtime, numpy and OpenCV alone."""

import json
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.images import read_image, write_image
from mmeffvit.utils.onnx import open_session

from .drawing import draw_label_map, draw_objects
from .masks import paste_mask
from .pictures import find_images
from .resizing import Resized, resize

Image = NDArray  # (H, W, 3), uint8, BGR, as OpenCV and the hosts have it
Input = str | os.PathLike | Image


class OnnxPredictor:
    """What the hosts' inferencers do, from one file of ``tools/export.py``.

    Args:
        path: The file of ONNX.
        threads: Threads of ONNX Runtime; None leaves it the choice.

    Attributes:
        metadata: What the file says of itself, texts by name.
        classes: Names by label.

    Raises:
        UserError: If the file is missing, or is none of ``tools/export.py``.
    """

    def __init__(self, path: str | os.PathLike, threads: int | None = None) -> None:
        if not Path(path).is_file():
            raise UserError(f'{str(path)!r} does not exist; `tools/export.py` writes such a file')
        self.session = open_session(path, threads or 0)
        self.metadata = dict(self.session.get_modelmeta().custom_metadata_map)
        if 'resize' not in self.metadata or self.metadata.get('task') == 'features':
            raise UserError(
                f'{path} gives {self.metadata.get("task", "what it does not say")}; take a file '
                'that `tools/export.py` wrote without --backbone-only'
            )
        self.classes = tuple(json.loads(self.metadata.get('classes', '[]')))
        self.outputs = [output.name for output in self.session.get_outputs()]
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
            batch_size: Images a step; only images that are resized to one size share a step.
            show: Show each picture in a window until a key is pressed.
            out_dir: Folder for the pictures, in its sub-folder ``vis``; none are written without.
            pred_score_thr: Objects with less are not drawn.
            return_vis: Give the pictures back, (H, W, 3), uint8, RGB.

        Returns:
            ``predictions``, one per image: of a detector `labels`, `scores`, `bboxes` (N, 4) in
            pixels of the image, and with masks `masks` (N, H, W), bool, scores descending; of a
            segmentor `label_map` (H, W). ``visualization``: the pictures.

        Raises:
            UserError: If an image cannot be read.
        """
        if batch_size < 1:
            raise UserError(f'batch_size is {batch_size}; it starts at 1')
        predictions, pictures = [], []
        for name, image, prediction in self._run(expand(inputs), batch_size):
            predictions.append(prediction)
            if not (show or out_dir or return_vis):
                continue
            picture = self.draw(image, prediction, pred_score_thr)
            if out_dir:
                write_image(Path(out_dir, 'vis', f'{name}.jpg'), picture)
            if show:
                cv2.imshow(name, picture)
                cv2.waitKey(0)
            if return_vis:
                pictures.append(picture[..., ::-1])
        return {'predictions': predictions, 'visualization': pictures}

    def draw(self, image: Image, prediction: dict[str, Any], score_thr: float = 0.3) -> Image:
        """Draw a prediction into a copy of the image it is of."""
        if 'label_map' in prediction:
            return draw_label_map(image, prediction['label_map'], self.palette)
        return draw_objects(image, prediction, self.classes, self.palette, score_thr)

    def _run(
        self, inputs: Sequence[Input], batch_size: int
    ) -> Iterator[tuple[str, Image, dict[str, Any]]]:
        """Name, image and prediction of every input."""
        for size_group in groupby(self._prepare(inputs), key=lambda each: each[2].image.shape):
            waiting: list = []
            for each in size_group[1]:
                waiting.append(each)
                if len(waiting) == batch_size:
                    yield from self._step(waiting)
                    waiting = []
            if waiting:
                yield from self._step(waiting)

    def _prepare(self, inputs: Sequence[Input]) -> Iterator[tuple[str, Image, Resized]]:
        how = json.loads(self.metadata['resize'])
        mean = json.loads(self.metadata['mean'])
        colour = mean[::-1] if self.metadata['network_colours'] == 'RGB' else mean  # BGR
        fixed = self.session.get_inputs()[0].shape[2:]
        fixed = tuple(fixed) if all(isinstance(side, int) for side in fixed) else None
        for index, item in enumerate(inputs):
            name = f'{index:08d}' if isinstance(item, np.ndarray) else Path(item).stem
            image = read(item)
            yield name, image, resize(image, how, fixed, colour)

    def _step(
        self, batch: list[tuple[str, Image, Resized]]
    ) -> Iterator[tuple[str, Image, dict[str, Any]]]:
        count = self.session.get_inputs()[0].shape[0]
        count = count if isinstance(count, int) else len(batch)
        for start in range(0, len(batch), count):
            part = batch[start : start + count]
            images = np.stack([resized.image for *_, resized in part])
            images = np.concatenate([images, *[images[:1]] * (count - len(part))])
            images = images[..., ::-1].transpose(0, 3, 1, 2)  # RGB, (B, 3, H, W)
            images = np.ascontiguousarray(images, dtype=np.float32)
            values = self.session.run(self.outputs, {'images': images})
            for i, (name, image, resized) in enumerate(part):
                outputs = {key: value[i] for key, value in zip(self.outputs, values, strict=True)}
                yield name, image, self._result(outputs, resized, image.shape[:2])

    def _result(
        self, outputs: dict[str, NDArray], resized: Resized, size: tuple[int, int]
    ) -> dict[str, Any]:
        """The outputs in pixels of the image that was read."""
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
            threshold = float(self.metadata.get('mask_threshold', 0.5))
            pasted = [
                paste_mask(mask, box, size, threshold)
                for mask, box in zip(outputs['masks'][filled], boxes, strict=True)
            ]
            result['masks'] = np.stack(pasted) if pasted else np.zeros((0, *size), dtype=bool)
        return result

    def _palette(self) -> NDArray:
        """A colour per class, RGB; the data set's, else colours far apart."""
        palette = json.loads(self.metadata.get('palette', 'null'))
        if isinstance(palette, list) and palette:
            return np.array(palette, dtype=np.uint8)
        colours = np.random.default_rng(0).integers(32, 256, (max(len(self.classes), 256), 3))
        return colours.astype(np.uint8)


def expand(inputs: Input | Sequence[Input]) -> list[Input]:
    """Folders as the images in them."""
    items = inputs if isinstance(inputs, list | tuple) else [inputs]
    expanded: list[Input] = []
    for item in items:
        folder = not isinstance(item, np.ndarray) and Path(item).is_dir()
        expanded += find_images(item) if folder else [item]
    return expanded


def read(item: Input) -> Image:
    """An image as OpenCV reads it.

    Raises:
        UserError: If it cannot be read, or is no colour image.
    """
    if isinstance(item, np.ndarray):
        if item.ndim != 3 or item.shape[2] != 3 or item.dtype != np.uint8:
            raise UserError(
                f'an image has shape {item.shape} and type {item.dtype}; give (H, W, 3), uint8, BGR'
            )
        return item
    return read_image(item)
