"""Predictions in Python with one call."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.structures import BaseDataElement

from mmeffvit.errors import UserError

from .coco_ids import CocoIds
from .frames import Frame, read_frames
from .inputs import Source, find_inputs
from .model import load_predictor
from .predict import PredictOptions, check_options, check_outputs, run
from .results import Detections, LabelMap, make_result
from .writers import PictureWriter, Writer

ARRAY = Source(*4 * (Path(),))  # of an image that was not read from a file

Result = Detections | LabelMap
Input = str | Path | np.ndarray


class Predictor:
    """A detector or segmentor for inference.

    ``Predictor('ssdlite_mobilevitv2_100')('photo.jpg', out_dir='out')``

    Args:
        config: A config of mmdet or mmseg, the name of one of ours, or a saved model, as a folder
            or as ``hf://OWNER/NAME``.
        checkpoint: A checkpoint of a run with this config, or a released one for it, as a file or
            URL; by default, the saved one, or the released one of the config.
        device: 'auto' for an accelerator if there is one, or a name such as 'cpu' or 'cuda:1'.
        cfg_options: Dotted keys and values that override the config's.

    Attributes:
        model: The model of mmdet or mmseg, in eval mode.
        classes: Class names by label.

    Raises:
        UserError: If the config, the checkpoint or the device cannot be used.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read, or does not fit.
    """

    def __init__(
        self,
        config: str | Path,
        checkpoint: str | Path | None = None,
        *,
        device: str = 'auto',
        cfg_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._loaded = load_predictor(
            str(config),
            None if checkpoint is None else str(checkpoint),
            device=device,
            cfg_options=cfg_options,
        )
        self.model = self._loaded.model
        self.classes = self._loaded.classes

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
            out_dir: Folder for drawn predictions, with the names of the files; None to draw none.
            score_thr: Lowest score of a detection, in [0, 1]; by default, those from 0.3 are drawn
                and all are returned.
            batch_size: Images per batch.

        Returns:
            A :class:`~mmeffvit.inference.results.Detections` or a
            :class:`~mmeffvit.inference.results.LabelMap` for a single file or array, else a list
            with one for every image and frame.

        Raises:
            UserError: If an input does not exist or cannot be read.
        """
        items = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
        pictures = None if out_dir is None else Path(out_dir)
        options = PredictOptions(pictures=pictures, score_thr=score_thr, batch_size=batch_size)
        check_options(options)
        collector = Collector(self.classes, score_thr or 0.0)
        writers: list[Writer] = [collector]
        if pictures is not None:
            writers.append(PictureWriter(pictures))
        frames = self._frames(items, options)
        ids = CocoIds(list(range(len(self.classes))), '')  # consecutive image ids
        run(self._loaded, ids, frames, writers, options)
        if isinstance(inputs, np.ndarray):
            return collector.results[0]
        is_image = isinstance(inputs, str | Path) and Path(inputs).is_file()
        return (
            collector.results[0]
            if is_image and collector.results[0].frame is None
            else collector.results
        )

    def _frames(self, items: Sequence[Input], options: PredictOptions) -> Iterator[Frame]:
        """The images, either all from files or all from arrays.

        Raises:
            UserError: If there is none, one cannot be read, or a picture would overwrite a file.
        """
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if arrays and (len(arrays) < len(items) or options.pictures is not None):
            raise UserError('pictures are named after files: give only arrays, and no out_dir')
        if arrays:
            return map(as_frame, arrays)
        found = find_inputs(map(str, items))
        if found.unreadable:
            refuse('; '.join(found.unreadable))
        check_outputs(self._loaded.scope, found.sources, options)
        return read_frames(found.sources, self._loaded.read, refuse)


def as_frame(image: np.ndarray) -> Frame:
    """A frame for an image that was not read from a file.

    Raises:
        UserError: If it is not (H, W, 3) uint8.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise UserError(
            f'an image is {image.dtype} of shape {image.shape}; give (H, W, 3) uint8 in BGR'
        )
    return Frame(ARRAY, None, image)


class Collector:
    """Collects results as NumPy arrays."""

    def __init__(self, classes: tuple[str, ...], score_thr: float) -> None:
        self.classes, self.score_thr = classes, score_thr
        self.results: list[Result] = []

    def write(self, frame: Frame, sample: BaseDataElement, picture: np.ndarray | None) -> None:
        """Add the results of one image."""
        self.results.append(make_result(sample, frame, self.classes, self.score_thr))

    def close(self) -> None:
        """Nothing to do."""

    abandon = close


def refuse(text: str) -> None:
    raise UserError(f'cannot be read: {text}')
