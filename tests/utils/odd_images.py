"""Files that Pillow gives to Ghostscript, and JPEGs whose header states any size."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

EPS = b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n'
FRAME = b'\xff\xc0\0\x11\x08'  # start of a frame of three channels, before its size


def field(record: int, number: int, value: bytes) -> bytes:
    """An entry of IPTC."""
    return struct.pack('>BBBH', 0x1C, record, number, len(value)) + value


POSTSCRIPT = {
    'text': EPS,
    'with the header of DOS': struct.pack('<7IH', 0xC6D3D0C5, 30, len(EPS), 0, 0, 0, 0, 0xFFFF)
    + EPS,
    # Pillow opens what it contains, whatever that is
    'in IPTC': field(3, 60, b'\1\0')
    + field(3, 20, b'\0\x08')
    + field(3, 30, b'\0\x08')
    + field(3, 120, b'\5')
    + field(8, 10, EPS)
    + bytes(16),
}


def fake_ghostscript(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program named gs on the path; it writes the returned file when it is given a job."""
    called = folder / 'called'
    program = folder / 'bin' / 'gs'
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo "$@" >> \'{called}\'\n')
    program.chmod(0o755)
    monkeypatch.setenv('PATH', str(program.parent), prepend=':')
    monkeypatch.setattr(EpsImagePlugin, 'gs_binary', None)  # it is searched once
    return called


def save_rotated(path: Path, height: int, width: int, orientation: int = 6) -> None:
    """A black image that EXIF rotates or mirrors, by default by a quarter turn."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(path, exif=exif)


def jpeg_of(width: int, height: int) -> bytes:
    """A JPEG with the pixels of a smaller one."""
    content = io.BytesIO()
    Image.new('RGB', (8, 8)).save(content, 'JPEG')
    return stated_size(content.getvalue(), width, height)


def stated_size(content: bytes, width: int, height: int) -> bytes:
    """A JPEG, or frames of a video, with another size in the header."""
    first, *others = content.split(FRAME)
    size = struct.pack('>HH', height, width)
    return FRAME.join([first, *(size + other[4:] for other in others)])
