"""Images and the frames of videos, one after another."""

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
ESTIMATED = 0.02  # of the frames: some types of files tell a duration, not a number
FALLBACK_RATE = 25.0  # frames per second, for a video that does not say


@dataclass
class Frame:
    """An image, or one frame of a video.

    Args:
        source: The file.
        number: Of the frame, from 0; None for an image.
        image: (H, W, 3) BGR.
        rate: Frames per second of the video.
    """

    source: Source
    number: int | None
    image: np.ndarray
    rate: float = 0.0

    @property
    def name(self) -> Path:
        """What its results are called."""
        name = self.source.name
        return name if self.number is None else name / f'{self.number:06d}.png'

    @property
    def labels(self) -> Path:
        """What its label map is called."""
        name = self.source.labels
        return name if self.number is None else name / f'{self.number:06d}.png'


def read_frames(
    sources: Iterable[Source],
    read_image: Callable[[Path], np.ndarray],
    report: Callable[[str], None],
) -> Iterator[Frame]:
    """Images and frames in order; what cannot be read is reported and passed over.

    Args:
        sources: The files.
        read_image: Gives an image as (H, W, 3) BGR, or raises ``Unreadable``.
        report: Gets the file and the reason.
    """
    for source in sources:
        try:
            if source.is_video:
                yield from read_video(source)
            else:
                yield Frame(source, None, read_image(source.path))
        except Unreadable as error:
            report(str(error))


def read_video(source: Source) -> Iterator[Frame]:
    """The frames of a video.

    Raises:
        Unreadable: If OpenCV does not open it, finds no frame, or, at the end, fewer than it says.
    """
    video = cv2.VideoCapture(str(source.path))
    number = 0
    try:
        rate = video.get(cv2.CAP_PROP_FPS)
        rate = rate if isfinite(rate) and 0 < rate <= MAX_RATE else FALLBACK_RATE
        said = video.get(cv2.CAP_PROP_FRAME_COUNT)
        while True:
            there, image = video.read()
            if not there:
                break
            yield Frame(source, number, image, rate)
            number += 1
    except cv2.error as error:
        raise Unreadable(f'{source.path} (after {number} frames: {error})') from error
    finally:
        video.release()
    if not number:
        raise Unreadable(f'{source.path} (OpenCV opens no video there, or finds no frame in it)')
    if said - number > max(1, ESTIMATED * said):
        raise Unreadable(
            f'{source.path} (it says {said:.0f} frames and ends after {number}, of which the '
            'results are written: is it cut?)'
        )


def count_frames(sources: Iterable[Source]) -> int:
    """Images and frames as far as the files say, for a progress bar."""
    total = 0
    for source in sources:
        if source.is_video:
            video = cv2.VideoCapture(str(source.path))
            said = video.get(cv2.CAP_PROP_FRAME_COUNT)
            total += int(said) if 1 <= said < MAX_FRAMES else 1
            video.release()
        else:
            total += 1
    return total
