"""Places that cannot be written to, or that hold what must not be lost."""

import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.commands import SMALL, command, needs, train
from tests.hostile.judge import Case, Silent
from tests.hostile.world import World

PREDICT = ('predict', 'detector.py', 'run/epoch_2.pth', 'images')
READY = ('detector.py', 'segmentor.py', 'shapes', 'ade', 'images', 'run', 'found.pkl', 'found.json',
         'model.onnx', 'backbone.pth', 'run_of_segmentor/iter_1.pth')  # fmt: skip
VAL = 'shapes/annotations/instances_val2017.json'
# commands by the kind of their output, which is called OUT here
FILES: dict[str, tuple[object, ...]] = {
    '.onnx': ('quantize', 'model.onnx', 'images', 'OUT', '--exclude', 'none', '--allow-slower'),
    '.onnx of the export': ('export', 'detector.py', 'run/epoch_2.pth', 'OUT'),
    '.pkl': ('test', 'detector.py', 'run/epoch_2.pth', '--work-dir', 'w', '--out', 'OUT'),
    '.json': (*PREDICT, '--no-pictures', '--out', 'OUT'),
    '.safetensors': ('convert', 'backbone.pth', 'OUT'),
    '.pth': ('convert', 'backbone.pth', 'OUT'),
    '.json of the complexity': ('complexity', 'SwiftFormer:xs', '--json', 'OUT'),
    '.png': ('curves', 'run', '--out', 'OUT'),
}
FOLDERS: dict[str, tuple[object, ...]] = {
    'pictures': (*PREDICT, '--out-dir', 'OUT'),
    'label maps': (
        'predict',
        'segmentor.py',
        'run_of_segmentor/iter_1.pth',
        'images',
        '--no-pictures',
        '--out',
        'OUT',
    ),
    'work dir of a training': ('train', 'detector.py', '--no-check', '--work-dir', 'OUT'),
    'work dir of a test': ('test', 'detector.py', 'run/epoch_2.pth', '--work-dir', 'OUT'),
    'shown': ('test', 'detector.py', 'run/epoch_2.pth', '--work-dir', 'w', '--show-dir', 'OUT'),
    'browsed': ('browse', 'detector.py', '--out-dir', 'OUT'),
    'classes': ('per-class', 'detector.py', 'found.pkl', '--out-dir', 'OUT'),
    'errors': ('errors', 'found.pkl', 'OUT', '--ann', VAL),
    'heads': ('analyze-heads', 'detector.py', 'run/epoch_2.pth', '--out', 'OUT'),
    'attention': ('attention', 'SwiftFormer:xs', 'images/a.jpg', '--out', 'OUT'),
    'suite': ('suite', 'detector.py', '--work-dir', 'OUT'),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)

    def prepare(make: Callable[[Path], Any], name: str, folder: Path) -> None:
        ready(folder)
        make(folder / name)

    for number, (kind, arguments) in enumerate(FILES.items()):
        suffix = kind.split()[0]
        places = {**PLACES, 'a folder': Path.mkdir, 'a folder of photographs': photographs}
        for place, (what, make) in enumerate(places.items()):
            if more == 1 and (number + place) % 3:
                continue
            name = f'closed/out{suffix}' if 'closed' in what else f'out{suffix}'
            name = f'out{suffix}/out{suffix}' if 'below' in what else name
            yield Case('outputs', f'{kind}: {what}', with_output(arguments, name),
                       partial(prepare, make, name), expect='reject')  # fmt: skip
        yield Case('outputs', f'{kind}: another ending', with_output(arguments, 'out.xyz'), ready,
                   expect='either' if 'complexity' in kind else 'reject')  # fmt: skip
        if 'convert' not in arguments and 'export' not in arguments:  # which takes long
            yield Case('outputs', f'{kind}: a file to replace',
                       with_output(arguments, f'o{suffix}'),
                       partial(prepare, lambda path: path.write_text('old'), f'o{suffix}'),
                       expect='work', writes=(f'o{suffix}',))  # fmt: skip
    for number, (kind, arguments) in enumerate(FOLDERS.items()):
        for place, (what, make) in enumerate({**PLACES, 'a file': photograph}.items()):
            if more == 1 and (number + place) % 2:
                continue
            name = 'closed/out' if 'closed' in what else 'out/out' if 'below' in what else 'out'
            yield Case('outputs', f'{kind}: {what}', with_output(arguments, name),
                       partial(prepare, make, name))  # fmt: skip
    for what, arguments in OVER.items():
        yield Case('outputs', what, command(*arguments), ready,
                   expect='either' if 'beside' in what else 'reject')  # fmt: skip
    yield from full_disk_cases(ready, more)
    yield from run_cases(ready)


def with_output(arguments: tuple[object, ...], name: str) -> Callable[[Path], None]:
    return command(*(name if each == 'OUT' else each for each in arguments))


def photographs(path: Path) -> None:
    path.mkdir(parents=True)
    photograph(path / 'only_copy.jpg')


def photograph(path: Path) -> None:
    path.write_bytes(b'precious')


def below_a_file(path: Path) -> None:
    photograph(path.parent)


def closed(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o555)


PLACES: dict[str, Callable[[Path], Any]] = {
    'below a file': below_a_file,
    'in a closed folder': closed,
    'a loop of links': lambda path: path.symlink_to(path.name),
    'a device': lambda path: path.symlink_to('/dev/full'),
}
# outputs that would take the place of inputs
OVER: dict[str, tuple[object, ...]] = {
    'quantize into the images': ('quantize', 'model.onnx', 'images', 'images'),
    'quantize over the model': ('quantize', 'model.onnx', 'images', 'model.onnx'),
    'quantize over an image': ('quantize', 'model.onnx', 'images', 'images/a.jpg'),
    'pictures over the images': (*PREDICT, '--out-dir', 'images'),
    'picture over its image': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'images/a.jpg', '--out-dir', 'images'),
    'label maps over the images': (
        'predict', 'segmentor.py', 'run_of_segmentor/iter_1.pth', 'images', '--no-pictures',
        '--out', 'images'),
    'pictures and label maps in one folder': (
        'predict', 'segmentor.py', 'run_of_segmentor/iter_1.pth', 'shapes/val2017',
        '--out-dir', 'both', '--out', 'both'),
    'convert over its source': ('convert', 'backbone.pth', 'backbone.pth'),
    'results over the annotations': (*PREDICT, '--no-pictures', '--out', 'images'),
    'generated data over others': ('demo', '--out', 'images/a.jpg'),
    'classes beside the results': ('per-class', 'detector.py', 'found.pkl'),
    'a folder named as results': (*PREDICT, '--no-pictures', '--out', 'shapes'),
}  # fmt: skip


def small_disk(size: int, job: Callable[[Path], None]) -> Callable[[Path], None]:
    """No file can be longer than ``size`` bytes: writing fails as on a disk that is full."""

    def run(folder: Path) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        job(folder)

    return run


def full_disk_cases(ready: Callable[[Path], None], more: int) -> Iterator[Case]:
    for kind, arguments in {**FILES, **FOLDERS}.items():
        if more == 1 and (kind in ('.onnx of the export', 'shown') or 'work dir' in kind):
            continue
        name = f'out{kind.split()[0]}' if kind in FILES else 'out'
        size = 0 if kind in ('label maps', 'browsed', 'work dir of a test') else 60
        yield Case('outputs', f'{kind}: full disk', small_disk(size, with_output(arguments, name)),
                   ready, expect='either' if kind == 'work dir of a test' else 'reject',
                   codes=(1, 2) if kind == 'suite' else (2,))  # fmt: skip
    yield Case('outputs', 'checkpoint: full disk', small_disk(50_000, train(*SMALL)), ready)


def run_cases(ready: Callable[[Path], None]) -> Iterator[Case]:
    """Work dirs that are in use, or hold what others wrote."""

    def others(folder: Path) -> None:
        ready(folder)
        (folder / 'work').mkdir()
        for name in ('epoch_9.txt', 'notes.partial', '.partial', 'detector.py', 'thesis.pth'):
            photograph(folder / 'work' / name)

    yield Case('outputs', 'a work dir with files of others', train(*SMALL), others, expect='work',
               writes=('work/detector.py',))  # fmt: skip

    def killed(folder: Path) -> None:
        ready(folder)
        shutil.copytree(folder / 'run', folder / 'work')
        (folder / 'work' / '.epoch_3.pth.0a1b2c3d.mmeffvit-partial').mkdir()

    own = ('work',)
    yield Case('outputs', 'what a killed run left', train(arguments=('--resume',)), killed,
               expect='work', writes=own)  # fmt: skip

    def in_use(folder: Path) -> None:
        from mmeffvit.utils.files import locked

        reading, writing = os.pipe()
        holder = os.fork()
        if not holder:
            with locked(folder / 'work', 'the first run'):
                os.write(writing, b'x')
                time.sleep(60)
            os._exit(0)
        os.read(reading, 1)
        try:
            train(*SMALL)(folder)
        finally:
            os.kill(holder, signal.SIGKILL)

    yield Case('outputs', 'a work dir in use', in_use, ready, says=('the first run',))

    def two_writers(folder: Path) -> None:
        from mmeffvit.utils.files import write_file

        path, other = folder / 'suite.json', os.fork()
        for _ in range(100):
            write_file(path, (b'a' if other else b'b') * 50_000)
            if other and len(set(path.read_bytes())) != 1:
                raise Silent('two writers mixed')
        if not other:
            os._exit(0)
        os.waitpid(other, 0)

    yield Case('outputs', 'two writers of one file', two_writers, expect='work')
