"""Images and videos for ``predict``, and its outputs."""

import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.hostile.commands import command, needs
from tests.hostile.damage import damaged
from tests.hostile.judge import Case, Silent
from tests.hostile.world import SIDE, World, dice

READY = ('detector.py', 'shapes', 'run/epoch_2.pth')


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    for number, (what, make) in enumerate(BAD.items()):
        if more == 1 and number % 2 and not {'pipe', 'device', 'giant'} & set(what.split()):
            continue
        yield Case('images', f'{what} alone', predict('in'), partial(alone, world, make),
                   codes=(1, 2))  # fmt: skip
    for what, make in BAD.items():
        if what == 'folder without permission':
            continue  # nothing can be put there
        if more > 1 or 'loop' in what or 'cut' in what or 'pipe' in what:
            job = expecting(predict('in'), 2)
            yield Case('images', f'{what} among good ones', job,
                       partial(among, world, make), expect='either', codes=(1,))  # fmt: skip
    for what, (make, arguments, names) in GOOD.items():
        job = expecting(predict(*arguments), len(names), names)
        yield Case('images', f'good: {what}', job, partial(alone, world, make), expect='work')
    for number in range(6 * more):
        suffix = ('.png', '.jpg', '.avi')[number % 3]

        def spoil(folder: Path, number: int = number, suffix: str = suffix) -> None:
            source = {'.png': world / 'images/000000.png', '.jpg': world / 'images/a.jpg',
                      '.avi': world / 'video.avi'}[suffix]  # fmt: skip
            (folder / f'x{suffix}').write_bytes(
                damaged(source.read_bytes(), dice('image', seed, number))
            )

        yield Case('images', f'random {number}{suffix}', predict('in'),
                   partial(alone, world, spoil), expect='either', codes=(1, 2))  # fmt: skip
    for number, what in enumerate(BAD):
        if more > 1 or number % 4 == 0:
            yield Case('images', f'{what}, ExportedPredictor', by_onnx,
                       partial(alone, world, BAD[what]), expect='either')  # fmt: skip
            yield Case('images', f'{what}, attention', command(
                'attention', 'SwiftFormer:xs', *NAMES.get(what, ('in/x.png',)), '--out', 'maps'
            ), partial(alone, world, BAD[what]), expect='either', codes=(1, 2))  # fmt: skip


def predict(*inputs: str, out: str = 'pictures') -> Callable[[Path], None]:
    return command('predict', 'detector.py', 'run/epoch_2.pth', *inputs, '--out-dir', out)


def by_onnx(folder: Path) -> None:
    from mmeffvit import ExportedPredictor

    predictor = ExportedPredictor('model.onnx')
    predictor('in', out_dir='pictures')


def expecting(job: Callable[[Path], None], count: int, names: tuple[str, ...] = ()) -> Any:
    """The job, and a look at the pictures it wrote."""

    def run(folder: Path) -> None:
        try:
            job(folder)
        finally:
            found = sorted(str(p.relative_to('pictures')) for p in Path('pictures').rglob('*.*'))
            if len(found) < count or (names and found != sorted(names)):
                raise Silent(f'pictures {found}, not {count}: {sorted(names)}')

    return run


def alone(world: World, make: Callable[[Path], Any], folder: Path) -> None:
    needs(world, *READY, 'model.onnx')(folder)
    (folder / 'in').mkdir()
    make(folder / 'in')


def among(world: World, make: Callable[[Path], Any], folder: Path) -> None:
    alone(world, make, folder)
    for name in ('a.jpg', '000000.png'):
        shutil.copyfile(world / 'images' / name, folder / 'in' / f'good_{name}')


def png(width: int, height: int, data: bytes = b'') -> bytes:
    """A PNG of RGB that claims a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (struct.pack('>I', len(content)) + kind + content
                + struct.pack('>I', zlib.crc32(kind + content)))  # fmt: skip

    header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(data))
            + chunk(b'IEND', b''))  # fmt: skip


def noisy(seed: int = 0, side: int = SIDE) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def save(*names: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for number, name in enumerate(names):
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            noisy(number).save(folder / name)

    return make


def cut(name: str, keep: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        noisy().save(folder / name)
        (folder / name).write_bytes((folder / name).read_bytes()[:keep])

    return make


def closed(folder: Path) -> None:
    noisy().save(folder / 'x.png')
    (folder / 'x.png').chmod(0)


def nested_links(folder: Path) -> None:
    """A folder that holds a link to itself."""
    (folder / 'x').mkdir()
    (folder / 'x' / 'y').symlink_to('..')
    (folder / 'x' / 'x.png').write_bytes(b'')


def bytes_as(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
BAD: dict[str, Callable[[Path], Any]] = {
    'nothing': lambda f: None,
    'empty': bytes_as('x.png', b''),
    'no image': bytes_as('x.png', b'not an image'),
    'vector graphics': bytes_as('x.png', SVG),
    'PostScript': bytes_as('x.png', b'%!PS-Adobe-3.0 EPSF-3.0\n(canary) (w) file\n'),
    'cut PNG': cut('x.png', 300),
    'cut JPEG': cut('x.jpg', 500),
    'cut WebP': cut('x.webp', 500),
    'cut TIFF': cut('x.tif', 500),
    'header alone': bytes_as('x.png', png(SIDE, SIDE)),
    'giant PNG': bytes_as('x.png', png(100_000, 100_000)),
    'giant side': bytes_as('x.png', png(2**31 - 1, 1)),
    'no pixels': bytes_as('x.png', png(0, 0)),
    'giant BMP': bytes_as(
        'x.bmp', b'BM' + struct.pack('<IIIIiiHHIIIIII', 54, 0, 54, 40, 60_000, 60_000, 1, 24,
                                     0, 0, 0, 0, 0, 0)
    ),
    'BMP of negative size': bytes_as(
        'x.bmp', b'BM' + struct.pack('<IIIIiiHHIIIIII', 54, 0, 54, 40, -5, -2**31, 1, 24,
                                     0, 0, 0, 0, 0, 0)
    ),
    'giant PPM': bytes_as('x.ppm', b'P6 99999999 99999999 255\n'),
    'pipe': lambda f: os.mkfifo(f / 'x.png'),
    'device': lambda f: (f / 'x.png').symlink_to('/dev/zero'),
    'loop of links': lambda f: (f / 'x.png').symlink_to('x.png'),
    'dangling link': lambda f: (f / 'x.png').symlink_to('nowhere.png'),
    'folder of a name': lambda f: (f / 'x.png').mkdir(),
    'folder in itself': nested_links,
    'no permission': closed,
    'folder without permission': lambda f: (save('x.png')(f), f.chmod(0)),
    'name of escape sequences': bytes_as('\x1b[2J.png', b'x'),
    'name that is no text': bytes_as('\udcff.png', b'x'),
    'other files': bytes_as('x.txt', b'x'),
    'empty video': bytes_as('x.mp4', b''),
    'no video': bytes_as('x.avi', b'not a video'),
    'video that is a pipe': lambda f: os.mkfifo(f / 'x.mp4'),
    'playlist as a video': bytes_as('x.mp4', b'#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n'),
    'concat list as a video': bytes_as('x.avi', b'ffconcat version 1.0\nfile /etc/passwd\n'),
}  # fmt: skip
NAMES = {'other files': ('in/x.txt',), 'empty video': ('in/x.mp4',)}


GOOD: dict[str, tuple[Callable[[Path], Any], tuple[str, ...], tuple[str, ...]]] = {
    'one stem in two types': (save('2.png', '2.jpg'), ('in',), ('2.png', '2.jpg')),
    'one name in two folders': (
        save('a/1.png', 'b/1.png', '2.png', '2.jpg'), ('in',),
        ('a/1.png', 'b/1.png', '2.png', '2.jpg'),
    ),
    'the same names given one by one': (
        save('a/1.png', 'b/1.png'), ('in/a/1.png', 'in/b/1.png'), ('a/1.png', 'b/1.png')
    ),
    'one file twice': (save('1.png'), ('in/1.png', 'in/1.png', 'in'), ('1.png',)),
    'types that cannot be written': (save('1.bmp', '1.tif', '1.png'), ('in',),
                                     ('1.bmp.png', '1.png', '1.tif.png')),
    'hidden names': (save('.x.png'), ('in',), ('.x.png',)),
    'blanks and signs': (save("a 'b\" $(touch canary);.png"), ('in',),
                         ("a 'b\" $(touch canary);.png",)),
    'signs of a glob': (save('[1].png', '*.png'), ('in',), ('*.png', '[1].png')),
    'gray': (lambda f: noisy().convert('L').save(f / 'x.png'), ('in',), ('x.png',)),
    'palette with transparency': (
        lambda f: noisy().convert('P').save(f / 'x.png', transparency=0), ('in',), ('x.png',)
    ),
    '16 bits': (lambda f: Image.new('I;16', (SIDE, SIDE), 40_000).save(f / 'x.png'), ('in',),
                ('x.png',)),
    '1 pixel': (lambda f: noisy(side=1).save(f / 'x.png'), ('in',), ('x.png',)),
}  # fmt: skip
