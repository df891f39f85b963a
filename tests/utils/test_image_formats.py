"""Images are opened by their content, of some formats and up to one size, by every reader."""

import io
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


# with mmcv alone, it is called; with mmeffvit, imported before or after, it is not
OPENING = """
import os
import mmcv

def reaches(called):
    try:
        mmcv.imread('x.png', backend='pillow')
    except OSError:  # the program writes no image
        return os.path.exists(called)
    except ValueError as error:
        assert 'it is PostScript' in str(error)
        return os.path.exists(called)

if 'mmeffvit' not in sys.modules:
    assert reaches(sys.argv[1])
    os.remove(sys.argv[1])
    import mmeffvit
assert reaches(sys.argv[1]) is False
"""


@pytest.fixture
def called(tmp_path, monkeypatch) -> Path:
    """Exists as soon as Ghostscript has been called."""
    return fake_ghostscript(tmp_path, monkeypatch)


@pytest.mark.parametrize('content', POSTSCRIPT.values(), ids=list(POSTSCRIPT))
def test_pillow_alone_gives_postscript_to_ghostscript(content, called, tmp_path):
    """The control of the next test."""
    (tmp_path / 'x.png').write_bytes(content)
    with pytest.raises(OSError, match='cannot identify'), Image.open(tmp_path / 'x.png') as image:
        image.load()  # the program writes no image
    assert called.exists()


@pytest.mark.parametrize('name', ['x.png', 'x.jpg'])
@pytest.mark.parametrize('reader', [*READERS, *MMCV])
@pytest.mark.parametrize('content', POSTSCRIPT.values(), ids=list(POSTSCRIPT))
def test_no_reader_gives_postscript_to_ghostscript(content, reader, name, called, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Exception, match=r'PostScript|IPTC'):
        {**READERS, **MMCV}[reader](tmp_path / name)
    assert header_size(tmp_path / name) is None
    assert not called.exists()


@pytest.mark.parametrize('first', sampled(['mmeffvit', 'mmcv'], ['mmcv']))
def test_mmcv_is_restricted_in_any_order_of_imports(first, called, tmp_path):
    (tmp_path / 'x.png').write_bytes(EPS)
    (tmp_path / 'script.py').write_text(f'import {first}, sys\n{OPENING}')
    done = run_python(tmp_path / 'script.py', called, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ('kind', 'content'),
    [
        ('PDF', b'%PDF-1.7\n'),
        ('Photoshop (PSD)', b'8BPS\0\1'),
        ('an icon (ICO)', b'\0\0\1\0\1\0'),
        ('an icon (ICNS)', b'icns\0\0\0\x10'),
        ('an animation (FLI)', b'\0\2\0\0\x11\xaf\1\0'),
        ('HEIC', b'\0\0\0\x18ftypheic'),
        ('a video', b'\0\0\0\x18ftypisom'),
        ('a Windows metafile (WMF)', b'\xd7\xcd\xc6\x9a\0\0'),
        ('an archive', b'PK\3\4'),
        ('a web page (HTML)', b'\n<!DOCTYPE html><html>'),
        ('SVG or XML', b'<svg xmlns="http://www.w3.org/2000/svg">'),
    ],
)
def test_a_file_of_another_kind_is_named(kind, content, tmp_path):
    path = tmp_path / 'x.png'
    path.write_bytes(content + bytes(200))
    for read in READERS.values():
        with pytest.raises(Exception, match='JPEG') as caught:
            read(path)
        assert f'it is {kind}, not JPEG' in str(caught.value)
        assert '\n' not in str(caught.value)


@pytest.mark.parametrize('kind', ['JPEG2000', 'ICO', 'TGA', 'PCX', 'SGI', 'DDS', 'SPIDER'])
def test_other_formats_of_pillow_are_rejected(kind, tmp_path):
    content = io.BytesIO()  # a path would give its suffix to SPIDER, in all later tests
    Image.fromarray(np.zeros((32, 32), 'f4' if kind == 'SPIDER' else 'u1')).save(content, kind)
    (tmp_path / 'x.png').write_bytes(content.getvalue())
    for read in (*READERS.values(), *MMCV.values()):
        with pytest.raises(Exception, match='JPEG, PNG'):
            read(tmp_path / 'x.png')


@pytest.mark.parametrize('content', [b'', b'no image', b'\x89PNG\r\n\x1a\n'])
def test_a_file_of_no_known_kind_is_damaged(content, tmp_path):
    (tmp_path / 'x.png').write_bytes(content)
    for read in READERS.values():
        with pytest.raises(Exception, match='damaged'):
            read(tmp_path / 'x.png')


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
