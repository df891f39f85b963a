"""Images are opened by their content, of some formats and up to one size, by every reader."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import mmcv
import numpy as np
import pytest
from mmseg.datasets.transforms import LoadAnnotations
from PIL import Image

from mmeffvit import ExportedPredictor
from mmeffvit.deploy.runtime.metadata import NO_RESIZE, Metadata
from mmeffvit.utils.image_formats import FORMATS, MAX_PIXELS
from mmeffvit.utils.images import (
    header_size,
    inspect,
    read_colors,
    read_image,
    read_labels,
    read_size,
)
from tests.conftest import run_python
from tests.utils.odd_images import EPS, POSTSCRIPT, fake_ghostscript, jpeg_of
from tests.variants import sampled

EXPORTED = SimpleNamespace(metadata=Metadata(resize=NO_RESIZE))
READERS: dict[str, Callable[[Path], Any]] = {
    'read_image': read_image,
    'read_size': read_size,
    'read_labels': read_labels,
    'read_colors': read_colors,
    'inspect': inspect,
    'ExportedPredictor': lambda path: ExportedPredictor.read(EXPORTED, path),
}
MMCV: dict[str, Callable[[Path], Any]] = {
    'mmcv': lambda path: mmcv.imread(path, backend='pillow'),
    'mmcv from bytes': lambda path: mmcv.imfrombytes(path.read_bytes(), backend='pillow'),
    'mmseg': lambda path: LoadAnnotations()(
        dict(seg_map_path=str(path), reduce_zero_label=False, seg_fields=[])
    ),
}


@pytest.fixture
def called(tmp_path, monkeypatch) -> Path:
    """Exists as soon as Ghostscript has been called."""
    return fake_ghostscript(tmp_path, monkeypatch)


@pytest.mark.parametrize('content', POSTSCRIPT.values(), ids=list(POSTSCRIPT))
def test_no_reader_gives_postscript_to_ghostscript(content, called, tmp_path):
    path = tmp_path / 'x.png'
    path.write_bytes(content)
    with contextlib.suppress(OSError), Image.open(path) as image:
        image.load()
    called.unlink()  # Pillow alone does
    for read in (*READERS.values(), *MMCV.values()):
        with pytest.raises(Exception, match=r'PostScript|IPTC'):
            read(path)
    assert header_size(path) is None
    assert not called.exists()


@pytest.mark.parametrize('first', sampled(['mmeffvit', 'mmcv'], ['mmcv']))
def test_mmcv_is_restricted_in_any_order_of_imports(first, called, tmp_path):
    (tmp_path / 'x.png').write_bytes(EPS)
    code = f'import {first}, mmeffvit, mmcv\nmmcv.imread("x.png", backend="pillow")'
    done = run_python('-c', code, cwd=tmp_path)
    assert 'it is PostScript' in done.stdout
    assert not called.exists()


def saved(kind: str) -> bytes:
    content = io.BytesIO()  # a path would give its suffix to SPIDER, in all later tests
    Image.fromarray(np.zeros((32, 32), 'f4' if kind == 'SPIDER' else 'u1')).save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize(
    ('words', 'content'),
    [
        ('it is PDF, not JPEG', b'%PDF-1.7\n'),
        ('it is Photoshop (PSD), not JPEG', b'8BPS\0\1'),
        ('it is an icon (ICO), not JPEG', b'\0\0\1\0\1\0'),
        ('it is an icon (ICNS), not JPEG', b'icns\0\0\0\x10'),
        ('it is an animation (FLI), not JPEG', b'\0\2\0\0\x11\xaf\1\0'),
        ('it is HEIC, not JPEG', b'\0\0\0\x18ftypheic'),
        ('it is a video, not JPEG', b'\0\0\0\x18ftypisom'),
        ('it is a Windows metafile (WMF), not JPEG', b'\xd7\xcd\xc6\x9a\0\0'),
        ('it is an archive, not JPEG', b'PK\3\4'),
        ('it is a web page (HTML), not JPEG', b'\n<!DOCTYPE html><html>'),
        ('it is SVG or XML, not JPEG', b'<svg xmlns="http://www.w3.org/2000/svg">'),
        *(('JPEG, PNG', saved(kind)) for kind in ('JPEG2000', 'ICO', 'TGA', 'PCX', 'SGI', 'DDS')),
        ('JPEG, PNG', saved('SPIDER')),
        ('damaged', b''),
        ('damaged', b'no image'),
        ('damaged', b'\x89PNG\r\n\x1a\n'),
        ('damaged', b'\0\0\0\x1cftypavif'),
    ],
)
def test_a_file_of_another_kind_is_named(words, content, tmp_path):
    path = tmp_path / 'x.png'
    path.write_bytes(content + bytes(200) * ('it is' in words))
    readers = {**READERS, **(MMCV if words == 'JPEG, PNG' else {})}
    for read in readers.values():
        with pytest.raises(Exception, match=re.escape(words)) as caught:
            read(path)
        assert '\n' not in str(caught.value)


@pytest.mark.parametrize('kind', FORMATS)
def test_every_allowed_format_is_read_whatever_the_suffix(kind, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    path = tmp_path / 'x.bmp'
    Image.fromarray(pixels).save(path, kind)
    if cv2.imread(str(path)) is None:
        pytest.skip(f'this OpenCV decodes no {kind}')
    assert read_size(path) == inspect(path).size == header_size(path) == (12, 16)
    assert np.array_equal(read_image(path)[..., ::-1], read_colors(path))
    assert all(read(path) is not None for read in (*READERS.values(), *MMCV.values()))


@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
@pytest.mark.parametrize('size', [(20_000, 8_000), (8_000, 20_000), (60_000, 60_000)])
def test_a_large_image_is_rejected_by_its_header(size, tmp_path):
    path = tmp_path / 'x.jpg'
    path.write_bytes(jpeg_of(*size))
    # above 179 million pixels, Pillow states only how many there are
    stated = '3600000000' if size == (60_000, 60_000) else '{:,} x {:,}'
    for read in (*READERS.values(), header_size):
        with pytest.raises(Exception, match='134,217,728') as caught:
            read(path)
        assert stated.format(*size) in str(caught.value)
        assert '\n' not in str(caught.value)


@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
def test_100_megapixels_are_read(tmp_path):
    path = tmp_path / 'x.png'
    Image.new('1', (10_000, 10_000)).save(path)
    assert 10_000**2 < MAX_PIXELS < 20_000 * 8_000
    assert read_size(path) == header_size(path) == (10_000, 10_000)


def test_a_png_is_not_decoded_for_its_size(tmp_path):
    path = tmp_path / 'x.png'
    Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:60])  # the pixels are missing
    assert header_size(path) == (30, 40)


def test_commands_limit_opencv_and_do_not_warn_below_the_limit(tmp_path):
    (tmp_path / 'large.jpg').write_bytes(jpeg_of(20_000, 8_000))
    (tmp_path / 'fits.jpg').write_bytes(jpeg_of(10_000, 10_000))
    (tmp_path / 'script.py').write_text(
        'from mmeffvit.cli.main import main\n'
        "try:\n    main(['analyze', 'curves', 'none.json'])\nexcept SystemExit:\n    pass\n"
        'import cv2\n'
        'from PIL import Image\n'
        "Image.open('fits.jpg')\n"
        "cv2.imread('large.jpg')\n"
    )
    done = run_python(tmp_path / 'script.py', cwd=tmp_path)
    assert 'pixels <= CV_IO_MAX_IMAGE_PIXELS' in done.stdout
    assert 'Warning' not in done.stdout
