"""Predictions in Python with one call, of models and of exported files."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby, islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmeffvit.errors import UserError
from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.utils.palette import make_palette
from mmeffvit.utils.text import check_names, counted, escape

from .coco_ids import CocoIds, find_ids
from .drawing import draw
from .inputs import Frame, Input, as_bgr, find_inputs, read_frames
from .results import Detections, Result, make_result
from .writers import DrawingWriter, Writer, check_outputs

SCORE_THR = 0.3  # default for visualizations


class BasePredictor(ABC):
    """The part of a predictor that does not depend on its runtime."""

    classes: tuple[str, ...]  # names by label
    colors: Sequence[Sequence[int]] | str | None  # RGB by label, or the name of a palette
    is_detector: bool  # whether it returns detections, not label maps or scores
    is_classifier: bool  # whether it returns scores of classes
    label_offset: int  # 1 if 0 is no class in the label maps of the dataset, otherwise 0

    @abstractmethod
    def read(self, path: Path) -> NDArray:
        """Read an image: (H, W, 3) BGR.

        Raises:
            Unreadable: If it cannot be decoded completely.
        """

    @abstractmethod
    def prepare(self, image: NDArray, path: Path) -> Any:
        """Preprocess an image of (H, W, 3), uint8, BGR."""

    @abstractmethod
    def batch_key(self, prepared: Any) -> Hashable:
        """Only consecutive images with the same key share a batch."""

    @abstractmethod
    def predict(self, batch: Sequence[Any]) -> list[Result]:
        """Predict on preprocessed images, in pixels of the original ones."""

    @abstractmethod
    def coco_ids(self) -> CocoIds:
        """Ids for COCO results."""

    @cached_property
    def palette(self) -> NDArray:
        """Colors by label, (N, 3), uint8, RGB."""
        return make_palette(self.colors, len(self.classes))

    def draw(
        self, image: NDArray | Image.Image, result: Result, score_thr: float = SCORE_THR
    ) -> NDArray:
        """Draw a prediction into a copy of its image, (H, W, 3) uint8 BGR.

        Args:
            image: The image, like an input of the predictor.
            result: The prediction for it.
            score_thr: Lowest score of a detection that is drawn.
        """
        if isinstance(image, np.ndarray):
            image = image.clip(0, 255).astype(np.uint8)  # some pipelines read floating-point ones
        return draw(as_bgr(image), result, self.palette, score_thr)

    def __call__(
        self,
        inputs: Input | Sequence[Input],
        *,
        out_dir: str | Path | None = None,
        score_thr: float | None = None,
        batch_size: int = 1,
    ) -> Result | list[Result]:
        """Predict on images, and optionally draw the predictions.

        Args:
            inputs: A file or an image as (H, W, 3) uint8 in BGR, as OpenCV reads them; or a
                folder, a glob, a video or a list of any of these.
            out_dir: Folder for drawn predictions, named after the files, or after the positions of
                arrays; None to draw none.
            score_thr: Lowest score of a detection, in [0, 1]; by default, those from 0.3 are drawn
                and all are returned.
            batch_size: Images per batch.

        Returns:
            A :class:`~mmeffvit.inference.results.Detections`, a
            :class:`~mmeffvit.inference.results.LabelMap` or a
            :class:`~mmeffvit.inference.results.ClassScores` for a single file or array, else a list
            with one for every image and frame.

        Raises:
            UserError: If an input does not exist or cannot be read.
        """
        check_thresholds(score_thr, batch_size)
        is_one = isinstance(inputs, str | os.PathLike | np.ndarray | Image.Image)
        items = list(inputs) if isinstance(inputs, Iterable) and not is_one else [inputs]
        for item in items:
            if not isinstance(item, str | os.PathLike | np.ndarray | Image.Image):
                raise UserError(f'an input is of type {type(item).__name__}; give a path or an '
                                'array (H, W, 3)')  # fmt: skip
        if not items:
            return []
        given = find_inputs(items, unique=False)
        if given.unreadable:
            reject('; '.join(given.unreadable))
        writers: list[Writer] = []
        if out_dir is not None:
            check_outputs(given.sources, drawings=Path(out_dir))
            writers.append(drawing_writer(self, Path(out_dir), score_thr))
        frames = read_frames(given.sources, self.read, reject)
        found = predict_frames(self, frames, writers, score_thr, batch_size, reject)
        results = [result for _, result in found]
        is_file = is_one and (not isinstance(inputs, str | os.PathLike) or Path(inputs).is_file())
        is_image = is_file and results[0].frame is None
        return results[0] if is_image else results


class Predictor(BasePredictor):
    """A detector, segmentor or classifier for inference.

    ``Predictor('ssdlite_mobilevitv2_100')('photo.jpg', out_dir='out')``

    For exported files see :class:`mmeffvit.ExportedPredictor`, which is called in the same way.

    Args:
        config: A config of mmdet, mmseg or mmpretrain, or the name of one of ours; or, with its
            weights, a run folder, a checkpoint of a run, or a saved model as a folder or as
            ``hf://OWNER/NAME``.
        checkpoint: A checkpoint of a run with this config, or a released one for it, as a file or
            URL; by default, the best one of the run, the saved one, or the released one.
        device: 'auto' for an accelerator if there is one, or a name such as 'cpu' or 'cuda:1'.
        cfg_options: Dotted keys and values that override the config's.

    Attributes:
        model: The model, in eval mode.
        config: Its config.
        checkpoint: The source of its weights.
        dataset: The config's test dataset, not loaded; None if it has none.
        meta: Meta information of the training data, such as ``classes`` and ``palette``.
        loader: The transform that reads an image file.
        pipeline: The transforms after it, without those that load annotations.
        classes: Class names by label.

    Raises:
        UserError: If the config, the checkpoint or the device cannot be used.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read, or does not
            fit.
    """

    def __init__(
        self,
        config: str | Path,
        checkpoint: str | Path | None = None,
        *,
        device: str = 'auto',
        cfg_options: Mapping[str, Any] | None = None,
    ) -> None:
        # exported files run without torch
        from mmeffvit.config.load import ALL
        from mmeffvit.zoo.source import find_source

        from .model import inference_pipeline, load_model, min_side

        given = None if checkpoint is None else str(checkpoint)
        loaded = load_model(find_source(str(config), cfg_options, ALL), given, device)
        self.model, self.config, self.checkpoint = loaded.model, loaded.config, loaded.checkpoint
        self.dataset, self.meta = loaded.dataset, loaded.dataset_meta
        self.loader, self.pipeline = inference_pipeline(self.config)
        self.classes = check_names(self.meta['classes'], self.checkpoint)
        self.colors = self.meta.get('palette')
        self.min_side = min_side(self.model)
        self.is_detector = self.config.default_scope == 'mmdet'
        self.is_classifier = self.config.default_scope == 'mmpretrain'
        self.label_offset = int(bool(getattr(self.dataset, 'reduce_zero_label', False)))

    def read(self, path: Path) -> NDArray:
        """Read an image with the config's loader: (H, W, 3) BGR."""
        read_size(path)
        try:
            return self.loader(dict(img_path=str(path)))['img']
        except Exception as error:  # decoders raise various exceptions
            raise Unreadable(f'{path} ({error})') from error

    def prepare(self, image: NDArray, path: Path) -> dict[str, Any]:
        """Run the test pipeline on an image of (H, W, 3)."""
        size = image.shape[:2]
        prepared = self.pipeline(
            dict(img=image, img_path=str(path), img_id=0, img_shape=size, ori_shape=size)
        )
        made = tuple(prepared['inputs'].shape[1:])
        if min(made) < self.min_side:
            raise Unreadable(
                f'{path} ({made[1]} x {made[0]} pixels in the test pipeline; the model needs '
                f'{self.min_side} or more)'
            )
        return prepared

    def batch_key(self, prepared: Any) -> Hashable:
        """The image size, except for a detector, which pads the images of a batch to one size."""
        return None if self.is_detector else prepared['inputs'].shape

    def predict(self, batch: Sequence[Any]) -> list[Result]:
        """Predict on outputs of the test pipeline."""
        from .model import run_model

        return [make_result(sample, self.classes) for sample in run_model(self.model, batch)]

    def coco_ids(self) -> CocoIds:
        """Ids of the test dataset's annotation file, if it exists and has the classes."""
        return find_ids(self.dataset, self.classes)


def drawing_writer(
    predictor: BasePredictor, folder: Path, score_thr: float | None
) -> DrawingWriter:
    """A writer of visualizations, by default of detections with a score of at least 0.3."""
    shown = SCORE_THR if score_thr is None else score_thr
    return DrawingWriter(folder, partial(predictor.draw, score_thr=shown))


def predict_frames(
    predictor: BasePredictor,
    frames: Iterable[Frame],
    writers: Sequence[Writer],
    score_thr: float | None,
    batch_size: int,
    report: Callable[[str], None],
) -> Iterator[tuple[Frame, Result]]:
    """Predict on images and frames of videos, write the results, and yield both.

    If interrupted, keep the finished files. A ``score_thr`` of None writes all detections.
    """
    number = 0
    with ExitStack() as unfinished:
        for writer in writers:
            unfinished.callback(writer.abandon)
            writer.open()
        try:
            for batch in make_batches(predictor, frames, batch_size, report):
                results = predictor.predict([prepared for _, prepared in batch])
                for (frame, _), result in zip(batch, results, strict=True):
                    yield frame, write_result(writers, frame, result, score_thr)
                    number += 1
        except KeyboardInterrupt as error:
            kept = ', '.join(writer.finished for writer in writers if writer.finished)
            error.__notes__ = [f'{counted(number, "image")} done: {kept or "nothing was written"}']
            raise
        for writer in writers:
            writer.close()


def write_result(
    writers: Sequence[Writer], frame: Frame, result: Result, score_thr: float | None
) -> Result:
    """Write a result, and return it as it was written."""
    path = frame.source.path if frame.source.image is None else None
    result = replace(result, path=path, frame=frame.number)
    for writer in writers:
        writer.see(result)
    if isinstance(result, Detections) and score_thr is not None:
        result = result.above(score_thr)
    for writer in writers:
        writer.write(frame, result)
    return result


def make_batches(
    predictor: BasePredictor, frames: Iterable[Frame], size: int, report: Callable[[str], None]
) -> Iterator[list[tuple[Frame, Any]]]:
    """Batches of consecutive frames with their preprocessed images."""

    def prepare() -> Iterator[tuple[Frame, Any]]:
        for frame in frames:
            try:
                yield frame, predictor.prepare(frame.image, frame.source.path)
            except Unreadable as error:
                report(escape(str(error)))

    for _, alike in groupby(prepare(), lambda each: predictor.batch_key(each[1])):
        while batch := list(islice(alike, size)):
            yield batch


def check_thresholds(score_thr: float | None, batch_size: int) -> None:
    if score_thr is not None and not (isinstance(score_thr, Real) and 0 <= score_thr <= 1):
        raise UserError(f'the score threshold is {score_thr!r}; give a score from 0 to 1')
    if not (isinstance(batch_size, Integral) and batch_size >= 1):
        raise UserError(f'the batch size is {batch_size!r}; give 1 or more')


def reject(text: str) -> None:
    raise UserError(f'cannot be read: {text}')
