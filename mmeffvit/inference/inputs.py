"""Find images and videos given as files, folders, globs or arrays, and read their frames."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from math import isfinite
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from mmeffvit.data.files import files_below
from mmeffvit.errors import UserError
from mmeffvit.utils.image_formats import TooLargeError, check_pixels
from mmeffvit.utils.images import IRREGULAR, SUFFIXES, VIDEOS, Unreadable, is_image
from mmeffvit.utils.text import escape

KEPT = ('.jpg', '.jpeg', '.png')  # suffixes that visualizations keep
MAX_FRAMES = 2**31
MAX_RATE = 1000.0  # frames per second
FALLBACK_RATE = 25.0  # for a video without a valid rate
TOLERANCE = 0.02  # of the frame count: some formats store only a duration

Input = str | os.PathLike | NDArray | Image.Image  # an array is uint8, BGR, BGRA or gray
Found = tuple[Path, Path, NDArray | None]  # a file or an array, with its name


@dataclass(frozen=True)
class Media:
    """One image or video."""

    path: Path  # the file; empty for an array
    name: Path  # its name in results: a path relative to the output folder
    drawing: Path  # the unique name of its visualization: its own name if this type can be written
    labels: Path  # the unique name of its label map; for a video, of the folder of its label maps
    image: NDArray | None = None  # the array, (H, W, 3) BGR; None for a file

    @property
    def is_video(self) -> bool:
        return self.path.suffix.lower() in VIDEOS


@dataclass
class Inputs:
    """The images and videos found for the arguments."""

    # images and videos in the order of the arguments
    sources: list[Media] = field(default_factory=list)
    # arguments and files that cannot be read, with the reason
    unreadable: list[str] = field(default_factory=list)
    # number of other files in folders, by suffix
    others: Counter[str] = field(default_factory=Counter)


def find_inputs(arguments: Iterable[Input], *, unique: bool = True) -> Inputs:
    """Find files, files in folders (recursively), matches of quoted globs, and images as arrays.

    If ``unique``, take a file once, even if several arguments match it.

    Raises:
        UserError: If nothing is found, or an array is not an image.
    """
    arguments, inputs = list(arguments), Inputs()
    found: list[Found] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray | Image.Image):
            found.append((Path(), Path(f'{position:06d}.png'), as_bgr(argument)))
        else:
            found += ((path, name, None) for path, name in match(str(argument), inputs))
    if unique:
        first: dict[Path, Found] = {}
        for each in found:
            first.setdefault(each[0].resolve(), each)
        found = list(first.values())
    if not found and inputs.unreadable:
        raise UserError(f'no image or video to read: {"; ".join(inputs.unreadable)}')
    if not found:
        raise UserError(
            f'no image or video in {", ".join(map(str, arguments))}; images end in '
            f'{", ".join(SUFFIXES)}, videos in {", ".join(VIDEOS)}'
        )
    inputs.sources = make_sources(make_unique(found))
    return inputs


def as_bgr(image: NDArray | Image.Image) -> NDArray:
    """An image as (H, W, 3) uint8 BGR: gray repeated, without alpha, the upper 8 bits of 16.

    Pillow's are turned upright if they have EXIF data.

    Raises:
        UserError: If it is not an image.
    """
    if isinstance(image, Image.Image):
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith('I;16'):
            return as_bgr((np.asarray(upright) >> 8).astype(np.uint8))
        if upright.mode in ('I', 'F'):
            raise UserError(f'an image has the mode {upright.mode}, 32 bits; give one with 8 or 16')
        return np.ascontiguousarray(np.asarray(upright.convert('RGB'))[..., ::-1])
    gray = image[..., None] if image.ndim == 2 else image
    if gray.ndim != 3 or gray.shape[2] not in (1, 3, 4) or gray.dtype != np.uint8 or not gray.size:
        raise UserError(
            f'an image is {image.dtype} of shape {image.shape}; give (H, W, 3) or (H, W, 4) uint8 '
            'in BGR, or (H, W)'
        )
    return np.repeat(gray, 3, 2) if gray.shape[2] == 1 else gray[..., :3]


def match(argument: str, inputs: Inputs) -> Iterator[tuple[Path, Path]]:
    """The files of an argument with their names; others are added to ``inputs``.

    Files of a folder are named by their relative paths.
    """
    # a cycle of links does not "exist"
    matches = [argument] if os.path.lexists(argument) else sorted(glob(argument, recursive=True))
    if not matches:
        problem = 'matches no file' if has_magic(argument) else 'does not exist'
        inputs.unreadable.append(f'{argument!r} {problem}')
    folders = set(filter(Path.is_dir, map(Path, matches)))
    for each in map(Path, matches):
        if not folders.isdisjoint(each.parents):
            continue  # found below its folder
        is_folder = each in folders
        for path in files_below(each, hidden=True) if is_folder else [each]:
            if not is_known(path) and is_folder:
                inputs.others[path.suffix] += 1
            elif not is_known(path):
                inputs.unreadable.append(f'{path}: unknown type {path.suffix or "(none)"!r}')
            elif not os.path.isfile(path):
                inputs.unreadable.append(f'{path}: {IRREGULAR}')
            else:
                yield path, path.relative_to(each if is_folder else each.parent)


def is_input(argument: str) -> bool:
    """Whether an argument is an image, a video, a folder or a glob."""
    path = Path(argument)
    return '://' not in argument and (is_known(path) or path.is_dir() or has_magic(argument))


def is_known(path: Path) -> bool:
    return is_image(path) or path.suffix.lower() in VIDEOS


def result_names(
    names: Sequence[Path], preferred: Sequence[Path], suffixes: Sequence[str]
) -> list[Path]:
    """Unique names for the results of inputs, relative to the output folder.

    The preferred names if they are unique, else the inputs' names with the suffixes appended.
    """
    if len(set(preferred)) == len(preferred):
        return list(preferred)
    results: dict[Path, None] = {}
    for name, suffix in zip(names, suffixes, strict=True):
        result, number = name.with_name(f'{name.name}{suffix}'), 1
        while result in results:
            number += 1
            result = name.with_name(f'{name.name}_{number}{suffix}')
        results[result] = None
    return list(results)


def make_sources(found: Sequence[Found]) -> list[Media]:
    names = [name for _, name, _ in found]
    videos = [name.suffix.lower() in VIDEOS for name in names]
    suffixes = ['.mp4' if video else '.png' for video in videos]
    drawings = [
        name if name.suffix.lower() in KEPT else
        name.with_suffix(suffix) if video else name.with_name(name.name + suffix)
        for name, suffix, video in zip(names, suffixes, videos, strict=True)
    ]  # fmt: skip
    labels = [n if video else n.with_suffix('.png') for n, video in zip(names, videos, strict=True)]
    drawings = result_names(names, drawings, suffixes)
    labels = result_names(names, labels, ['' if video else '.png' for video in videos])
    return [
        Media(path, name, drawing, label, image)
        for (path, name, image), drawing, label in zip(found, drawings, labels, strict=True)
    ]


def make_unique(found: Sequence[Found]) -> list[Found]:
    """The same names, or paths relative to the common parent folder if names are not unique."""
    paths = [path.resolve() for path, _, image in found if image is None]
    if len({name for _, name, _ in found}) == len(found) or not paths:
        return list(found)
    common = os.path.commonpath([path.parent for path in paths])
    return [
        (path, path.resolve().relative_to(common) if image is None else name, image)
        for path, name, image in found
    ]


@dataclass
class Frame:
    """An image, or one frame of a video."""

    source: Media  # the file
    number: int | None  # number of the frame, from 0; None for an image
    image: NDArray  # (H, W, 3) BGR
    rate: float = 0.0  # frames per second of the video

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
    sources: Iterable[Media], read_image: Callable[[Path], NDArray], report: Callable[[str], None]
) -> Iterator[Frame]:
    """Images and frames in order; unreadable files are reported and skipped.

    ``read_image`` returns an image as (H, W, 3) BGR, or raises ``Unreadable``.
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
            report(escape(str(error)))


def read_video(source: Media) -> Iterator[Frame]:
    """The frames of a video.

    Raises:
        Unreadable: If OpenCV cannot open it, or finds no frames or fewer than the file states, or
            they are too large.
    """
    video = cv2.VideoCapture(os.fsencode(source.path))
    number = 0
    try:
        rate = video.get(cv2.CAP_PROP_FPS)
        rate = rate if isfinite(rate) and 0 < rate <= MAX_RATE else FALLBACK_RATE
        stated = video.get(cv2.CAP_PROP_FRAME_COUNT)
        check_pixels(video.get(cv2.CAP_PROP_FRAME_WIDTH), video.get(cv2.CAP_PROP_FRAME_HEIGHT))
        while (image := video.read()[1]) is not None:
            yield Frame(source, number, image, rate)
            number += 1
    except (TooLargeError, cv2.error) as error:
        raise Unreadable(f'{source.path} (after {number} frames: {error})') from error
    finally:
        video.release()
    if not number:
        raise Unreadable(
            f'{source.path} (OpenCV cannot open it as a video, or finds no frames in it)'
        )
    if stated - number > max(1, TOLERANCE * stated):
        raise Unreadable(
            f'{source.path} (it should have {stated:.0f} frames but ends after {number}: '
            'is it truncated?)'
        )


def count_frames(sources: Iterable[Media]) -> int:
    """Number of images and frames according to the files, for a progress bar."""
    total = 0
    for source in sources:
        stated = 1.0
        if source.is_video:
            video = cv2.VideoCapture(os.fsencode(source.path))
            stated = video.get(cv2.CAP_PROP_FRAME_COUNT)
            video.release()
        total += int(stated) if 1 <= stated < MAX_FRAMES else 1
    return total
