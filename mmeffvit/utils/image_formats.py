"""The formats of image files that are read, by content, and the largest size."""

import os
import re
import warnings
from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

# Pillow's names; it has readers that run programs, such as Ghostscript for PostScript
FORMATS = ('JPEG', 'PNG', 'BMP', 'WEBP', 'TIFF', 'PPM', 'GIF', 'AVIF')
MAX_PIXELS = 2**27  # 400 MB of colors, 11,585 x 11,585
ALLOWED = f'{", ".join(FORMATS[:-1])} or {FORMATS[-1]}'
HEAD = 64  # bytes that name the kind of a file

KINDS = {  # of other files, by how they begin
    rb'%!PS|\xc5\xd0\xd3\xc6': 'PostScript (EPS)',
    rb'%PDF': 'PDF',
    rb'8BPS': 'Photoshop (PSD)',
    rb'\x00\x00\x01\x00': 'an icon (ICO)',
    rb'\x00\x00\x02\x00': 'a cursor (CUR)',
    rb'icns': 'an icon (ICNS)',
    rb'.{4}[\x11\x12]\xaf': 'an animation (FLI)',
    rb'\x1c[\x01-\x0f\xf0]': 'IPTC',
    rb'\x00\x00\x00\x0cjP  |\xff\x4f\xff\x51': 'JPEG 2000',
    rb'.{4}ftyp(hei|hev|mif1|msf1)': 'HEIC',
    rb'.{4}ftyp(?!avi[fs])|RIFF.{4}AVI |\x1aE\xdf\xa3': 'a video',
    rb'\x76\x2f\x31\x01': 'OpenEXR',
    rb'#\?R': 'Radiance HDR',
    rb'DDS ': 'DDS',
    rb'\xd7\xcd\xc6\x9a|\x01\x00\x00\x00.{36} EMF': 'a Windows metafile (WMF)',
    rb'\x0a[\x00\x02\x03\x05]\x01': 'PCX',
    rb'\x01\xda': 'SGI',
    rb'PK\x03\x04|\x1f\x8b|BZh|7z\xbc\xaf|Rar!': 'an archive',
    rb'(?i)\s*<(!doctype )?html': 'a web page (HTML)',
    rb'\s*<(svg|\?xml)': 'SVG or XML',
}


class TooLargeError(ValueError):
    """An image of more than ``MAX_PIXELS``."""


def open_image(file: str | Path | BinaryIO) -> Image.Image:
    """Open an image as Pillow does, which decodes it when it is loaded.

    Raises:
        TooLargeError: If it has more than ``MAX_PIXELS``.
        ValueError: If it is damaged, or has none of ``FORMATS``.
    """
    try:
        image = open_allowed(file)
    except Image.DecompressionBombError as error:  # of Pillow's own, higher limit
        raise too_large(str(error).partition(' exceeds')[0]) from error
    try:
        check_pixels(*image.size)
    except TooLargeError:
        image.close()
        raise
    return image


def open_allowed(file: str | Path | BinaryIO) -> Image.Image:
    """Pillow's ``Image.open`` of ``FORMATS`` alone, of any size."""
    Image.init()  # an older Pillow has no AVIF
    try:
        return Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
    except UnidentifiedImageError as error:
        kind = kind_of(file)
        raise ValueError(
            f'it is {kind}, not {ALLOWED}: convert it'
            if kind
            else f'it is damaged, or not {ALLOWED}'
        ) from error


def kind_of(file: str | Path | BinaryIO) -> str | None:
    """What kind of file it is; None for ``FORMATS`` and unknown ones."""
    if isinstance(file, str | Path):
        with open(file, 'rb') as content:
            return kind_of(content)
    file.seek(0)
    head = file.read(HEAD)
    return next((kind for begin, kind in KINDS.items() if re.match(begin, head, re.DOTALL)), None)


def check_pixels(width: float, height: float) -> None:
    """Reject the size of an image or of the frames of a video, before they are decoded."""
    if width * height > MAX_PIXELS:
        raise too_large(f'Image size ({width:,.0f} x {height:,.0f} pixels)')


def limit_decoders() -> None:
    """Have OpenCV, before it is imported, keep the limit, and Pillow not warn below it."""
    os.environ.setdefault('OPENCV_IO_MAX_IMAGE_PIXELS', str(MAX_PIXELS))
    warnings.filterwarnings('ignore', category=Image.DecompressionBombWarning)


def too_large(size: str) -> TooLargeError:
    return TooLargeError(
        f'{size} exceeds the limit of {MAX_PIXELS:,} pixels: shrink it or cut it into tiles'
    )
