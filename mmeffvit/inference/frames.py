"""Images and the frames of videos, one after another."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.utils.images import Unreadable

from .inputs import Source

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
        Unreadable: If OpenCV does not open it, or finds no frame.
    """
    video = cv2.VideoCapture(str(source.path))
    try:
        rate = video.get(cv2.CAP_PROP_FPS) or FALLBACK_RATE
        number = 0
        while True:
            there, image = video.read()
            if not there:
                break
            yield Frame(source, number, image, rate)
            number += 1
    finally:
        video.release()
    if not number:
        raise Unreadable(f'{source.path} (OpenCV opens no video there, or finds no frame in it)')


def count_frames(sources: Iterable[Source]) -> int:
    """Images and frames as far as the files say, for a progress bar."""
    total = 0
    for source in sources:
        if source.is_video:
            video = cv2.VideoCapture(str(source.path))
            total += max(int(video.get(cv2.CAP_PROP_FRAME_COUNT)), 1)
            video.release()
        else:
            total += 1
    return total
