"""Images and videos for all that reads them, and the outputs of ``predict``."""

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.hostile.commands import (
    at,
    command,
    in_each,
    in_turn,
    needs,
    predict_exported,
    put,
    spelled,
)  # fmt: skip
from tests.hostile.damage import damaged, install_ghostscript, postscript
from tests.hostile.judge import Case, Silent
from tests.hostile.world import SIDE, World, dice, write_video
from tests.utils.odd_images import jpeg_of, stated_size

READY = ('detector.py', 'shapes', 'run/epoch_2.pth', 'model.onnx')
NONE = 'no image or video in in'
SMALL = 2**28  # bytes: less than the pixels of an image that is too large


def predict(*inputs: str) -> Callable[[Path], None]:
    return command('predict', 'detector.py', 'run/epoch_2.pth', *inputs, '--out-dir', 'pictures')


# each is called with the folder or the file
FOLDERS = {'predict': predict, 'ExportedPredictor': partial(predict_exported, 'model.onnx')}
FILES = {
    'attention': lambda name: command(
        'analyze', 'attention', 'SwiftFormer:xs', name, '--out-dir', 'maps'
    ),
    'export': lambda name: command(
        'export', 'detector.py', 'run/epoch_2.pth', 'out.onnx', '--image', name
    ),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    case, ready = partial(Case, 'images'), needs(world, *READY)
    alone = partial(in_turn, ready, lambda folder: (folder / 'in').mkdir())
    good = put('in/x.png', (world / 'images/000000.png').read_bytes())
    for how, door in FOLDERS.items():
        yield case(how, 'good', door('in'), alone(good), 'work', makes=('pictures/x.png',),
                   is_control=True)  # fmt: skip
    for how, door in FILES.items():
        written = 'out.onnx' if how == 'export' else 'maps/x.npz'
        yield case(how, 'good', door('in/x.png'), alone(good), 'work', makes=(written,),
                   is_control=True)  # fmt: skip
    yield case('predict', 'bad', predict('nothing.png'), ready,
               says=("'nothing.png' does not exist",), is_control=True)  # fmt: skip
    for what, (make, name, *other) in BAD.items():
        bad, word = alone(at('in', make)), spelled(name)
        limit = {'memory': SMALL} if 'giant' in what else {}
        for how, door in FOLDERS.items():
            yield case(how, what, door('in'), bad, codes=(1, 2), says=(*other, word)[:1],
                       **limit)  # fmt: skip
        for how, door in FILES.items():
            if how == 'attention' or what in ('PostScript', 'giant JPEG'):
                yield case(how, what, door(f'in/{name}'), bad, says=(f'in/{word}',),
                           **limit)  # fmt: skip
        if not name.startswith('closed'):  # nothing can be put there
            yield case('predict', f'{what} among good ones', expecting(predict('in'), 2),
                       in_turn(bad, save('in/good_1.png', 'in/good_2.png')),
                       'work' if other else 'reject', codes=(1,),
                       says=() if other else (word, '1 skipped'),
                       makes=('pictures/good_1.png', 'pictures/good_2.png'))  # fmt: skip
    for what, (make, arguments, names) in GOOD.items():
        yield case('predict', f'good: {what}', expecting(predict(*arguments), len(names), names),
                   alone(at('in', make)), 'work',
                   makes=tuple(f'pictures/{name}' for name in names))  # fmt: skip
    for number in range(6 * more):
        name = in_each(('images/000000.png', 'images/a.jpg', 'video.avi'), number)
        spoilt = f'in/x{Path(name).suffix}'

        def spoil(folder: Path, name=name, spoilt=spoilt, number=number) -> None:
            content = (world / name).read_bytes()
            (folder / spoilt).write_bytes(damaged(content, dice('image', seed, number)))

        yield case('predict', f'random {number}', predict('in'), alone(spoil), 'either',
                   codes=(1, 2), says=(spoilt,))  # fmt: skip


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


def bmp(width: int, height: int) -> bytes:
    fields = (54, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b'BM' + struct.pack('<IIIIiiHHIIIIII', *fields)


def cut_film(folder: Path) -> None:
    path = folder / 'x.avi'
    write_video(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 3 // 4])  # among its frames


def giant_film(folder: Path) -> None:
    """A video whose headers claim frames that are too large."""
    path = folder / 'x.avi'
    write_video(path)
    small, large = (struct.pack('<II', *size) for size in ((SIDE, SIDE), (20_000, 8_000)))
    path.write_bytes(stated_size(path.read_bytes().replace(small, large), 20_000, 8_000))


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
# what to put into a folder, the name of the file, and words where a folder has no image
BAD: dict[str, tuple[Any, ...]] = {
    'nothing': (lambda f: None, 'x.png', NONE),
    'empty': (put('x.png', b''), 'x.png'),
    'vector graphics': (put('x.png', SVG), 'x.png'),
    'PostScript': (
        lambda f: (install_ghostscript(f.parent), postscript('x.png')(f)), 'x.png'),
    'PostScript as a JPEG': (
        lambda f: (install_ghostscript(f.parent), postscript('x.jpg')(f)), 'x.jpg'),
    'cut PNG': (cut('x.png', 300), 'x.png'),
    'cut JPEG': (cut('x.jpg', 500), 'x.jpg'),
    'header alone': (put('x.png', png(SIDE, SIDE)), 'x.png'),
    'giant PNG': (put('x.png', png(100_000, 100_000)), 'x.png'),
    'giant JPEG': (put('x.jpg', jpeg_of(20_000, 8_000)), 'x.jpg'),
    'giant BMP': (put('x.bmp', bmp(60_000, 60_000)), 'x.bmp'),
    'BMP of negative size': (put('x.bmp', bmp(-5, -(2**31))), 'x.bmp'),
    'giant PPM': (put('x.ppm', b'P6 99999999 99999999 255\n'), 'x.ppm'),
    'pipe': (lambda f: os.mkfifo(f / 'x.png'), 'x.png'),
    'device': (lambda f: (f / 'x.png').symlink_to('/dev/zero'), 'x.png'),
    'loop of links': (lambda f: (f / 'x.png').symlink_to('x.png'), 'x.png'),
    'folder of a name': (lambda f: (f / 'x.png').mkdir(), 'x.png', NONE),
    'folder in itself': (nested_links, 'x/x.png'),
    'no permission': (closed, 'x.png'),
    'folder without permission': (
        lambda f: ((f / 'closed').mkdir(), save('closed/x.png')(f), (f / 'closed').chmod(0)),
        'closed/x.png', NONE),
    'name of escape sequences': (put('\x1b[2J.png', b'x'), '\x1b[2J.png'),
    'name that is no text': (put('\udcff.png', b'x'), '\udcff.png'),
    'other files': (put('x.txt', b'x'), 'x.txt', NONE),
    'empty video': (put('x.mp4', b''), 'x.mp4'),
    'giant video': (giant_film, 'x.avi'),
    'cut video': (cut_film, 'x.avi'),
    'video that is a pipe': (lambda f: os.mkfifo(f / 'x.mp4'), 'x.mp4'),
    'playlist as a video': (
        put('x.mp4', b'#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n'), 'x.mp4'),
    'concat list as a video': (
        put('x.avi', b'ffconcat version 1.0\nfile /etc/passwd\n'), 'x.avi'),
}  # fmt: skip


GOOD: dict[str, tuple[Callable[[Path], Any], tuple[str, ...], tuple[str, ...]]] = {
    'one file twice': (save('1.png'), ('in/1.png', 'in/1.png', 'in'), ('1.png',)),
    'hidden names': (save('.x.png'), ('in',), ('.x.png',)),
    'blanks and signs': (save("a 'b\" $(touch canary);.png"), ('in',),
                         ("a 'b\" $(touch canary);.png",)),
    'a recursive glob': (save('deep/1.png', '2.PNG'), ('in/**/*',), ('1.png', '2.PNG')),
    'a video whose name is no text': (
        lambda f: write_video(f / '\udcff.mp4', 'mp4v'), ('in',), ('\udcff.mp4',)),
    'signs of a glob': (save('[1].png', '*.png'), ('in',), ('*.png', '[1].png')),
    'gray': (lambda f: noisy().convert('L').save(f / 'x.png'), ('in',), ('x.png',)),
    'palette with transparency': (
        lambda f: noisy().convert('P').save(f / 'x.png', transparency=0), ('in',), ('x.png',)
    ),
    '16 bits': (lambda f: Image.new('I;16', (SIDE, SIDE), 40_000).save(f / 'x.png'), ('in',),
                ('x.png',)),
    '1 pixel': (lambda f: noisy(side=1).save(f / 'x.png'), ('in',), ('x.png',)),
}  # fmt: skip
