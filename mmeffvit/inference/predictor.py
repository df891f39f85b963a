"""Predictions in Python, in one line."""

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

ARRAY = Source(*4 * (Path(),))  # of an image that is in no file

Result = Detections | LabelMap
Input = str | Path | np.ndarray


class Predictor:
    """A detector or segmentor that is ready for photographs.

    ``Predictor('ssdlite_mobilevitv2_100')('photo.jpg', out_dir='out')``

    Args:
        config: A config of mmdet or mmseg, or the name of one of ours.
        checkpoint: A checkpoint of a run with this config, or a released model of it, as a file or
            an address; None takes the one that is released for the config.
        device: 'auto' for an accelerator where there is one, or a name such as 'cpu' or 'cuda:1'.
        cfg_options: Dotted keys and values that replace the config's.

    Attributes:
        model: The model of mmdet or mmseg, in test mode.
        classes: Names by label.

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
        """Predict on photographs, and draw pictures of what is found.

        Args:
            inputs: A file or an image as (H, W, 3) uint8 in BGR, as OpenCV reads them; or a
                folder, a glob, a video or a list of any of these.
            out_dir: Folder of the pictures, under the names of the files; None draws none.
            score_thr: Smallest score of a detection, in [0, 1]; by default pictures show those from
                0.3 on, and all are returned.
            batch_size: Images a step.

        Returns:
            A :class:`~mmeffvit.inference.results.Detections` or a
            :class:`~mmeffvit.inference.results.LabelMap` of one file or one array, else a list with
            one for every image and frame.

        Raises:
            UserError: If there is no such input, or one cannot be read.
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
        ids = CocoIds(list(range(len(self.classes))), '')  # a number for every image
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
        """The images, all from files or all from arrays.

        Raises:
            UserError: If there is none, one cannot be read, or a picture would overwrite a file.
        """
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        if arrays and (len(arrays) < len(items) or options.pictures is not None):
            raise UserError('pictures are named after files: give arrays alone, without out_dir')
        if arrays:
            return map(as_frame, arrays)
        found = find_inputs(map(str, items))
        if found.absent:
            refuse('; '.join(found.absent))
        check_outputs(self._loaded.scope, found.sources, options)
        return read_frames(found.sources, self._loaded.read, refuse)


def as_frame(image: np.ndarray) -> Frame:
    """An image that is in no file.

    Raises:
        UserError: If it is not (H, W, 3) of bytes.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise UserError(
            f'an image is {image.dtype} of shape {image.shape}; give (H, W, 3) uint8 in BGR'
        )
    return Frame(ARRAY, None, image)


class Collector:
    """Keeps results in plain numbers."""

    def __init__(self, classes: tuple[str, ...], score_thr: float) -> None:
        self.classes, self.score_thr = classes, score_thr
        self.results: list[Result] = []

    def write(self, frame: Frame, sample: BaseDataElement, picture: np.ndarray | None) -> None:
        """Take the results of one image."""
        self.results.append(make_result(sample, frame, self.classes, self.score_thr))

    def close(self) -> None:
        """Everything is there."""

    abandon = close


def refuse(text: str) -> None:
    raise UserError(f'cannot be read: {text}')
