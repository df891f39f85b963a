"""Iterating over images and the frames of videos."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.utils.images import Unreadable

from .inputs import Source

MAX_FRAMES = 2**31
MAX_RATE = 1000.0  # frames per second
ESTIMATED = 0.02  # tolerance of the frame count: some formats store only a duration
FALLBACK_RATE = 25.0  # frames per second, for a video without a valid rate


@dataclass
class Frame:
    """An image, or one frame of a video.

    Args:
        source: The file.
        number: Number of the frame, from 0; None for an image.
        image: (H, W, 3) BGR.
        rate: Frames per second of the video.
    """

    source: Source
    number: int | None
    image: np.ndarray
    rate: float = 0.0

    @property
    def name(self) -> Path:
        """Name of its results."""
        name = self.source.name
        return name if self.number is None else name / f'{self.number:06d}.png'

    @property
    def labels(self) -> Path:
        """Name of its label map."""
        name = self.source.labels
        return name if self.number is None else name / f'{self.number:06d}.png'


def read_frames(
    sources: Iterable[Source],
    read_image: Callable[[Path], np.ndarray],
    report: Callable[[str], None],
) -> Iterator[Frame]:
    """Images and frames in order; unreadable files are reported and skipped.

    Args:
        sources: The files.
        read_image: Returns an image as (H, W, 3) BGR, or raises ``Unreadable``.
        report: Called with the file and the reason.
    """
    for source in sources:
        try:
            if source.image is not None:
                yield Frame(source, None, source.image)
            elif source.is_video:
                yield from read_video(source)
            else:
                yield Frame(source, None, read_image(source.path))
        except Unreadable as error:
            report(str(error))


def read_video(source: Source) -> Iterator[Frame]:
    """The frames of a video.

    Raises:
        Unreadable: If OpenCV cannot open it, or finds no frames or fewer than stated in the file.
    """
    video = cv2.VideoCapture(str(source.path))
    number = 0
    try:
        rate = video.get(cv2.CAP_PROP_FPS)
        rate = rate if isfinite(rate) and 0 < rate <= MAX_RATE else FALLBACK_RATE
        stated = video.get(cv2.CAP_PROP_FRAME_COUNT)
        while True:
            success, image = video.read()
            if not success:
                break
            yield Frame(source, number, image, rate)
            number += 1
    except cv2.error as error:
        raise Unreadable(f'{source.path} (after {number} frames: {error})') from error
    finally:
        video.release()
    if not number:
        raise Unreadable(
            f'{source.path} (OpenCV cannot open it as a video, or finds no frames in it)'
        )
    if stated - number > max(1, ESTIMATED * stated):
        raise Unreadable(
            f'{source.path} (it should have {stated:.0f} frames but ends after {number}, whose '
            'results are written: is it truncated?)'
        )


def count_frames(sources: Iterable[Source]) -> int:
    """Number of images and frames as stated in the files, for a progress bar."""
    total = 0
    for source in sources:
        if source.is_video:
            video = cv2.VideoCapture(str(source.path))
            stated = video.get(cv2.CAP_PROP_FRAME_COUNT)
            total += int(stated) if 1 <= stated < MAX_FRAMES else 1
            video.release()
        else:
            total += 1
    return total
