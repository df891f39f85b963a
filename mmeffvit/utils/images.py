"""Image files: decoded completely or rejected, and written atomically."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmeffvit.errors import UserError

from .files import write_file
from .image_formats import TooLargeError, open_image
from .text import reason

SUFFIXES = (
    '.jpg', '.jpeg', '.jfif', '.jpe', '.png', '.bmp', '.webp', '.tif', '.tiff', '.ppm', '.pgm',
    '.avif',
)  # fmt: skip
VIDEOS = ('.mp4', '.avi', '.mov', '.mkv', '.webm', '.m4v', '.mpg', '.mpeg')
IRREGULAR = 'not a regular file, but a pipe, a device or a broken link'
ORIENTATION = 0x0112  # the EXIF tag
JPEG = ('JPEG', 'MPO')  # Pillow's formats
JPEG_START, END = b'\xff\xd8', b'\xff\xd9'
PNG_END = b'IEND'
PART, TAIL = 4096, 16  # bytes of a file that are read; of its end
MCU = 16  # rows of the largest blocks of a JPEG
LOST_ROWS = 0.02  # part of the rows of a JPEG whose last bytes may be missing
PARTLY = ('TIFF', 'GIF', 'AVIF')  # OpenCV decodes some forms, or none if it is older
PNG = b'\x89PNG\r\n\x1a\n'
PNG_BITS = 24  # place of the bits of a channel in the header
CANVAS = (124, 117, 104)  # RGB, of mmcv
UPRIGHT, ROTATED = 1, (5, 6, 7, 8)  # its values: unchanged; rotations by 90 degrees


class Unreadable(Exception):  # noqa: N818  a result, not an error of the program
    """An image that cannot be decoded completely."""


def is_image(path: Path) -> bool:
    """Whether the suffix belongs to an image."""
    return path.suffix.lower() in SUFFIXES


def read_image(path: str | Path) -> NDArray:
    """Read an image with OpenCV: (H, W, 3) uint8 BGR, rotated according to its EXIF orientation.

    Raises:
        UserError: If it does not exist, cannot be decoded, or is too large.
    """
    if not os.path.isfile(path):
        cause = IRREGULAR if os.path.lexists(path) else 'it does not exist'
        raise UserError(f'{str(path)!r} cannot be read as an image: {cause}')
    try:
        with open_image(path) as image:
            _check_orientation(image)
        # as bytes: OpenCV crashes on a name that is not text
        pixels = cv2.imread(os.fsencode(path), cv2.IMREAD_COLOR)
    except Exception as error:  # decoders raise various exceptions
        cause = error if isinstance(error, ValueError) else reason(error)
        raise UserError(f'{str(path)!r} cannot be read as an image: {cause}') from error
    if pixels is None:
        raise UserError(f'{str(path)!r} cannot be read as an image')
    return pixels


def _check_orientation(image: Image.Image) -> None:
    """Reject EXIF rotations outside of JPEG, which OpenCV, as used in training, does not apply."""
    if image.format not in JPEG and image.getexif().get(ORIENTATION, 1) != UPRIGHT:
        raise ValueError(
            f'EXIF rotates or mirrors it, which OpenCV does not do in {image.format}: save it '
            'upright and without the tag'
        )


def read_size(path: Path) -> tuple[int, int]:
    """Height and width in pixels, like mmdet and mmseg: rotated according to the EXIF orientation.

    Raises:
        Unreadable: If it cannot be decoded completely.
    """
    with _decoded(path) as image:
        _check_opencv(path, image)
        return _size_of(image)


def header_size(path: str | Path, formats: Sequence[str] | None = None) -> tuple[int, int] | None:
    """The result of :func:`read_size` from the header alone.

    Returns:
        None if it is not known, or the file has none of the ``formats``, if given.

    Raises:
        UserError: If it is too large.
    """
    try:
        with open_image(path) as image:
            return _size_of(image) if not formats or image.format in formats else None
    except TooLargeError as error:
        raise UserError(f'{path} cannot be read: {error}') from error
    except Exception:  # it is reported when it is decoded
        return None


def _orientation(image: Image.Image) -> int:
    # the others are not rotated, and a PNG would be decoded to find the tag
    found = image.getexif().get(ORIENTATION) if image.format in JPEG else UPRIGHT
    return found if found in range(1, 9) else UPRIGHT


def _size_of(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    return (width, height) if _orientation(image) in ROTATED else (height, width)


def read_labels(path: Path) -> NDArray:
    """The values of a label map, or its palette indices: (H, W) or (H, W, channels).

    Raises:
        Unreadable: If it cannot be decoded completely.
    """
    with _decoded(path) as image:
        if image.mode == 'F':
            raise ValueError('its values are not integers')
        return np.asarray(image)


def read_palette(path: Path) -> bytes:
    """Red, green and blue of every index of an image; empty without a palette, or if unreadable."""
    if not os.path.isfile(path):  # opening a pipe would block
        return b''
    with suppress(Exception), open_image(path) as image:  # decoders raise various exceptions
        return bytes(image.getpalette() or ()) if image.mode == 'P' else b''
    return b''


@dataclass(frozen=True)
class ImageFacts:
    """Properties of an image file."""

    size: tuple[int, int]  # height and width in pixels, rotated according to the EXIF orientation
    orientation: int  # of EXIF, where OpenCV applies it; else 1, upright
    mode: str  # Pillow's: 'RGB', 'CMYK', 'P', ...
    bits: int  # per channel
    digest: bytes  # hash of the file
    is_cut: bool = False  # whether its last bytes are missing


def inspect(path: Path) -> ImageFacts:
    """Decode an image completely, and describe it; the last bytes of a JPEG may be missing.

    Raises:
        Unreadable: If it cannot be decoded completely.
    """
    try:
        with _decoded(path) as image:
            _check_opencv(path, image)
            return _facts_of(path, image)
    except Unreadable:
        if not is_cut_jpeg(path):
            raise
    with open_image(path) as image:  # the header alone
        _check_orientation(image)
        return replace(_facts_of(path, image), is_cut=True)


def _facts_of(path: Path, image: Image.Image, content: bytes = b'') -> ImageFacts:
    size, orientation, mode = _size_of(image), _orientation(image), image.mode
    content = content or path.read_bytes()
    # Pillow reads a PNG of 16 bits and several channels as one of 8, unlike its header
    deep = mode[0] in 'IF' or (content.startswith(PNG) and content[PNG_BITS] == 16)
    return ImageFacts(size, orientation, mode, 16 if deep else 8, blake2b(content).digest())


def inspect_header(path: Path) -> ImageFacts:
    """Like :func:`inspect`, without decoding a JPEG or PNG that has an end; others are decoded.

    The digest covers some parts of the file and its size.

    Raises:
        Unreadable: If it is no image, or cannot be decoded completely.
    """
    if not os.path.isfile(path):
        return inspect(path)
    with suppress(Exception):  # decoders raise various ones; it is reported when it is decoded
        with path.open('rb') as file:
            size = os.fstat(file.fileno()).st_size
            parts = [file.read(PART)]
            for place in (size // 2, max(0, size - PART)):
                file.seek(place)
                parts.append(file.read(PART))
        if any(mark in parts[-1][-TAIL:] for mark in (END, PNG_END)):
            with open_image(path) as image:
                if image.format in (*JPEG, 'PNG'):
                    _check_orientation(image)
                    return _facts_of(path, image, b''.join([*parts, str(size).encode()]))
    return inspect(path)


def is_cut_jpeg(path: Path) -> bool:
    """Whether a JPEG lacks some of its last bytes only, so that OpenCV decodes nearly all rows.

    Decoders fill what is missing with one color; in memory, OpenCV needs the mark of the end.
    """
    if not os.path.isfile(path):
        return False
    content = path.read_bytes()
    if not content.startswith(JPEG_START) or content.rstrip(b'\0').endswith(END):
        return False
    pixels = cv2.imdecode(np.frombuffer(content + END, np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        return False
    is_filled = (pixels == pixels[:, -1:]).all((1, 2))
    num_rows = len(pixels) if is_filled.all() else int(np.argmin(is_filled[::-1]))
    return num_rows <= max(MCU, LOST_ROWS * len(pixels))


def read_colors(path: Path, *, as_mmcv: bool = False) -> NDArray:
    """The colors of an image or of the palette of its indices: (H, W, 3) uint8 RGB.

    ``as_mmcv`` puts gray with transparency on a color, as mmcv's Pillow backend does.

    Raises:
        Unreadable: If it cannot be decoded completely.
    """
    with _decoded(path) as image:
        if as_mmcv and image.mode == 'LA':
            colors = image.convert('RGBA')
            image = Image.new('RGB', image.size, CANVAS)
            image.paste(colors, mask=colors.getchannel('A'))
        return np.asarray(image.convert('RGB'))


def _check_opencv(path: Path, image: Image.Image) -> None:
    """Reject an image that OpenCV, as used in training, cannot decode."""
    if image.format in PARTLY and cv2.imread(os.fsencode(path)) is None:
        raise ValueError(f'OpenCV cannot decode this {image.format}: save it as a PNG')


@contextmanager
def _decoded(path: Path) -> Iterator[Image.Image]:
    if not os.path.isfile(path):
        raise Unreadable(f'{path} ({IRREGULAR if os.path.lexists(path) else "does not exist"})')
    try:
        with open_image(path) as image:
            _check_orientation(image)
            image.load()  # it rotates a TIFF, and removes the tag
            yield image
    except Exception as error:  # decoders raise various exceptions
        raise Unreadable(f'{path} ({error})') from error


def write_image(path: str | Path, image: NDArray) -> None:
    """Write an image, (H, W, 3) BGR or (H, W), atomically."""
    done, content = cv2.imencode(Path(path).suffix, image)
    assert done, path
    write_file(path, content.tobytes())


def write_labels(path: str | Path, labels: NDArray) -> None:
    """Write a label map (H, W) as a PNG of 8 bits, or of 16 if a label needs them, atomically."""
    write_image(path, labels.astype(np.uint8 if labels.max(initial=0) < 256 else np.uint16))


def resize_corners(image: NDArray, size: tuple[int, int]) -> NDArray:
    """Interpolate bilinearly with aligned corners, as ``align_corners=True`` in torch.

    Args:
        image: (H, W, C).
        size: Height and width, in pixels.

    Returns:
        float32 of (height, width, C), or the image itself if it already has this size.
    """
    for axis, side in enumerate(size):
        old = image.shape[axis]
        if old == side:
            continue
        places = np.arange(side, dtype=np.float32) * np.float32((old - 1) / max(side - 1, 1))
        low = places.astype(np.int64).clip(max=max(old - 2, 0))
        part = (places - low).astype(np.float32).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        first, second = (image.take(low + step, axis, mode='clip') for step in (0, 1))
        image = first * (1 - part) + second * part
    return image


def truncated_size(size: tuple[int, int], scale: Sequence[int]) -> tuple[int, int]:
    """The largest height and width with the aspect ratio of ``size``, truncated.

    ``scale`` limits the long and the short side, in any order.
    """
    low, high = sorted(size)
    short, long = min(scale), max(scale)
    if short * high > long * low:  # the long side is the limit
        sides = max(long * low // high, 1), long
    else:
        sides = short, short * high // low
    return sides if size[0] <= size[1] else sides[::-1]
