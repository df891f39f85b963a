"""Places that cannot be written to, or that hold what must not be lost."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.commands import (
    CONVERT,
    CONVERT_DATASET,
    SMALL,
    Job,
    at,
    command,
    in_turn,
    needs,
    script,
    train,
)
from tests.hostile.judge import Case
from tests.hostile.world import VAL, World

BUILT = ('detector.py', 'run/epoch_2.pth')
PREDICT, TEST = ('predict', *BUILT, 'images'), ('test', *BUILT, '--work-dir')
SEGMENTOR = ('mobile/mmseg.py', 'mobile/epoch_1.pth')
SEGMENT = ('predict', *SEGMENTOR)
READY = ('detector.py', 'shapes', 'ade', 'images', 'run', 'found.pkl', 'found.json', 'model.onnx',
         'backbone.pth', 'mobile')  # fmt: skip


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY, 'video.avi')
    case = partial(Case, 'outputs', by_parser=True)  # which checks outputs before any work
    yield case('complexity', 'bad', command('complexity', 'SwiftFormer:xs', '--json', 'x'),
               in_turn(ready, lambda folder: (folder / 'x').mkdir()),
               says=("output 'x' is a folder",), is_control=True)  # fmt: skip
    for name, (arguments, names) in OUTPUTS.items():
        written = tuple(f'out/{each}' for each in names)
        yield case(name, 'good', with_output(arguments, 'out'), ready, 'work', makes=written,
                   is_control=True)  # fmt: skip
        yield from misplaced(partial(case, name), arguments, ready)
        yield from replaced(partial(case, name), name, written, ready)
    for what, (word, *arguments) in OVER.items():
        door = 'convert' if arguments[0] == CONVERT else arguments[0]
        door = 'predict label maps' if SEGMENTOR[0] in arguments else door
        yield case(door, what, called(*arguments), ready, says=(word,))
    yield from run_cases(ready)
    yield from parts_of_a_model(needs(world, 'images'))
    for name, (make, word) in KEPT.items():
        yield case(name, 'kept', with_output(OUTPUTS[name][0], 'out'),
                   in_turn(ready, at('out', make)), says=(word,), is_control=True)  # fmt: skip


def misplaced(case: Any, arguments: tuple[object, ...], ready: Job) -> Iterator[Case]:
    """Every output of a command where it cannot be written, or has another suffix."""
    targets = [str(each) for each in arguments if 'OUT' in str(each)]
    for what, make in ABOVE.items():
        names = tuple(f"'{each.replace('OUT', 'above/out')}'" for each in targets)
        yield case(what, with_output(arguments, 'above/out'), in_turn(ready, at('above', make)),
                   says=(names,))  # fmt: skip
    for target in targets:
        name, is_file = target.replace('OUT', 'out'), bool(Path(target).suffix)
        for what, make in {**PLACES, **(FOLDERS if is_file else {'a file': write_image})}.items():
            yield case(f'{what} at {name}', with_output(arguments, 'out'),
                       in_turn(ready, at(name, make)), says=(f"'{name}'",))  # fmt: skip
        if is_file and '--json' not in arguments:  # which takes any
            other = tuple('out.xyz' if each == target else each for each in arguments)
            yield case(f'another suffix than {name}', with_output(other, 'out'), ready,
                       says=('.xyz',))  # fmt: skip
        job = full_disk(Path(name).name if is_file else 'out', with_output(arguments, 'out'))
        yield case(f'full disk at {name}', job, ready, says=(FULL,),
                   codes=(1, 2) if 'suite' in arguments else (2,))  # fmt: skip


def with_output(arguments: tuple[object, ...], name: str) -> Callable[[Path], None]:
    return called(*(str(each).replace('OUT', name) for each in arguments))


def called(first: str, *arguments: object) -> Callable[[Path], None]:
    """A command, or a script of tools/."""
    return (script if first in (CONVERT, CONVERT_DATASET) else command)(first, *arguments)


def write_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'precious')


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


ABOVE: dict[str, Callable[[Path], Any]] = {
    'below a file': write_image,
    'in a closed folder': lambda path: (path.mkdir(), path.chmod(0o555)),
}
PLACES: dict[str, Callable[[Path], Any]] = {
    'a loop of links': lambda path: link(path, path.name),
    'a device': lambda path: link(path, '/dev/full'),
}
FOLDERS: dict[str, Callable[[Path], Any]] = {
    'a folder': lambda path: path.mkdir(parents=True),
    'a folder of images': lambda path: write_image(path / 'only_copy.jpg'),
}


# the name of an output is replaced; the file that it leads to must not change
LINKS: dict[str, Callable[[Path, Path], Any]] = {
    'symbolic links': Path.symlink_to, 'hard links': Path.hardlink_to,
}  # fmt: skip
# what exists already and is read before it is written
READ = {'heads.json': '{}', 'suite.json': '{}', 'last_checkpoint': 'gone.pth'}
READ |= dict.fromkeys(('p.py', 'p_distill.py'), 'kept_heads')
ONNX, FASTEST = ('model.onnx', 'images'), ('--exclude', 'none', '--allow-slower')
BACKBONE = ('--backbone-only', '--shape', 64, 64)
# calls with OUT for the folder of their outputs, and these
OUTPUTS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    'quantize': (('quantize', *ONNX, 'OUT/q.onnx', *FASTEST), ('q.onnx',)),
    'quantize to OpenVINO': (('quantize', *ONNX, 'OUT/q.xml', *FASTEST), ('q.xml', 'q.bin')),
    'export': (('export', *SEGMENTOR, 'OUT/e.onnx', *BACKBONE), ('e.onnx',)),
    'export to OpenVINO': (('export', *SEGMENTOR, 'OUT/e.xml', *BACKBONE), ('e.xml', 'e.bin')),
    'export to ncnn': (
        ('export', *SEGMENTOR, 'OUT/e.param', '--shape', 64, 64), ('e.param', 'e.bin', 'e.json')),
    'predict': (
        (*PREDICT, 'video.avi', '--out-dir', 'OUT/p', '--out', 'OUT/p.json'),
        ('p.json', 'p.images.json', 'p/a.jpg', 'p/b.jpg', 'p/video.mp4')),
    'predict label maps': (
        (*SEGMENT, 'images/a.jpg', '--label-map-dir', 'OUT/maps', '--out-dir', 'OUT/p'),
        ('maps/a.png', 'p/a.jpg')),
    'test': (
        (*TEST, 'OUT/w', '--out', 'OUT/t.pkl', '--show-dir', 'OUT/s'),
        ('t.pkl', 's/000000.png', 's/000001.png', 'w/console.log')),
    'test a segmentor': (
        ('test', *SEGMENTOR, '--work-dir', 'OUT/w', '--out', 'OUT/t.pkl', '--show-dir', 'OUT/s',
         '--cfg-options', 'data_root=ade/'),
        ('t.pkl', 's/vis_data/vis_image/test_ADE_val_00000001.jpg_0.png', 's/vis_data/config.py',
         'w/console.log')),
    'train': (
        ('train', 'detector.py', '--no-check', '--work-dir', 'OUT/w', '--cfg-options', *SMALL),
        ('w/.mmeffvit-lock', 'w/detector.py', 'w/console.log', 'w/last_checkpoint')),
    'complexity': (('complexity', 'SwiftFormer:xs', '--json', 'OUT/c.json'), ('c.json',)),
    'curves': (('analyze', 'curves', 'run', '--out', 'OUT/c.png'), ('c.png',)),
    'browse': (
        ('browse', 'detector.py', '--num-images', 1, '--out-dir', 'OUT'), ('detector_train.png',)),
    'per-class': (
        ('analyze', 'per-class', 'detector.py', 'found.pkl', '--out-dir', 'OUT'),
        ('per_class.md', 'per_class.png')),
    'errors': (
        ('analyze', 'errors', 'found.pkl', '--out-dir', 'OUT', '--ann', f'shapes/{VAL}'),
        ('bbox/errors.json', 'bbox/errors.md', 'bbox/errors.png')),
    'heads': (
        ('analyze', 'heads', *SEGMENTOR, '--layers', 'stages.3', '--out-dir', 'OUT'),
        ('heads.json', 'heads.csv')),
    'prune': (
        ('prune', *SEGMENTOR, '--method', 'random', '--out', 'OUT/p.pth'),
        ('p.pth', 'p.py', 'p_distill.py')),
    'attention': (
        ('analyze', 'attention', 'SwiftFormer:xs', 'images/a.jpg', '--out-dir', 'OUT'),
        ('a.additive.png', 'a.npz')),
    'convert-dataset': (
        (CONVERT_DATASET, 'shapes', 'OUT'), ('train.json', 'val.json', 'faults.txt')),
    'convert-dataset to label maps': (
        (CONVERT_DATASET, 'shapes', 'OUT', '--label-maps'),
        ('train.json', 'about.json', 'train/000001.png')),
    'profile': (
        ('profile', 'model.onnx', '--shape', 64, 64, '--formats', '.onnx', '--threads', 1,
         '--seconds', 0.01, '--device', 'cpu', '--json', 'OUT/p.json', '--out', 'OUT/p.png'),
        ('p.json', 'p.png')),
    'suite': (
        ('suite', 'detector.py', '--work-dir', 'OUT'),
        ('suite.json', 'suite.md', 'detector/suite.log')),
    'convert': ((CONVERT, 'backbone.pth', 'OUT/c.pth'), ('c.pth',)),
    'convert to safetensors': (
        (CONVERT, 'backbone.pth', 'OUT/c.safetensors'), ('c.safetensors',)),
    'web': (('web', 'model.onnx', 'OUT'), ('index.html',)),
}  # fmt: skip
# they replace nothing, or a whole page
KEEPING = ('convert', 'convert to safetensors', 'web')
# quick ones, with at least one output of every way of writing
PIPED = ('predict', 'predict label maps', 'test', 'test a segmentor', 'train', 'complexity')
FULL = ('File too large', 'is the disk full?')
PIPE = 'is a pipe, device or dead link'


def replaced(case: Any, name: str, paths: tuple[str, ...], ready: Job) -> Iterator[Case]:
    """Every output of a command is a link, or one of them is a pipe."""
    job = with_output(OUTPUTS[name][0], 'out')
    for what, make in LINKS.items() if name not in KEEPING else ():
        yield case(what, job, in_turn(ready, partial(link_all, paths, make)), 'work', makes=paths,
                   writes=paths)  # fmt: skip
    for path in paths if name in PIPED else ():
        yield case(f'a pipe at {path}', job, in_turn(ready, at(path, pipe)), says=(path, PIPE))


def link_all(paths: tuple[str, ...], link: Callable[[Path, Path], Any], folder: Path) -> None:
    """Make every path a link to a file of its own in another folder."""
    (folder / 'outside').mkdir()
    for number, path in enumerate(map(folder.joinpath, paths)):
        target = folder / 'outside' / str(number)
        target.write_text(READ.get(path.name, 'precious'))
        path.parent.mkdir(parents=True, exist_ok=True)
        link(path, target)


def pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def parts_of_a_model(ready: Job) -> Iterator[Case]:
    names = ('model.safetensors', 'config.json', 'README.md', 'b.jpg')
    paths = tuple(f'out/{each}' for each in names)

    def save(folder: Path) -> None:
        import mmeffvit

        mmeffvit.save_pretrained(mmeffvit.get_model('shvit_s1'), 'out', picture='images/b.jpg')

    case = partial(Case, 'outputs', 'save_pretrained', job=save, expect='work', makes=paths)
    yield case('good', prepare=ready, is_control=True)
    for what, link in LINKS.items():
        yield case(what, prepare=in_turn(ready, partial(link_all, paths, link)), writes=paths)


def page_with_a_pipe(out: Path) -> None:
    pipe(out / 'page.json')


def linked_folder(out: Path) -> None:
    (out / 's').mkdir(parents=True)
    (out / 's' / 'vis_data').symlink_to(out.parent / 'images')


# commands that replace nothing in such a folder of outputs
KEPT: dict[str, tuple[Callable[[Path], Any], str]] = {
    'web': (page_with_a_pipe, 'not part of a page (page.json)'),
    'test a segmentor': (linked_folder, "vis_data' is a folder that exists already"),
}
# outputs that would take the place of inputs: words of the refusal, and the call
OVER: dict[str, tuple[Any, ...]] = {
    'quantize into the images': ("'images' is a folder", 'quantize', 'model.onnx', 'images',
                                 'images'),
    'quantize over the model': ("'model.onnx' is the float file", 'quantize', 'model.onnx',
                                'images', 'model.onnx'),
    'quantize over an image': ("'images/a.jpg' must end", 'quantize', 'model.onnx', 'images',
                               'images/a.jpg'),
    'pictures over the images': ('would overwrite images/', *PREDICT, '--out-dir', 'images'),
    'picture over its image': (
        'would overwrite images/a.jpg', *PREDICT[:3], 'images/a.jpg', '--out-dir', 'images'),
    'label maps over the images': (
        'would overwrite images/', *SEGMENT, 'images', '--no-save-vis', '--label-map-dir',
        'images'),
    'pictures and label maps in one folder': (
        'would overwrite', *SEGMENT, 'shapes/val2017', '--out-dir', 'both',
        '--label-map-dir', 'both'),
    'convert over its source': ("'backbone.pth' exists", CONVERT, 'backbone.pth',
                                'backbone.pth'),
    'a run over an image': ("'images/a.jpg' is a file", 'train', 'detector.py',
                                   '--work-dir', 'images/a.jpg'),
}  # fmt: skip


def full_disk(name: str, job: Job) -> Job:
    """From the first write to the output on, no file of the process can grow."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == 'os.mkdir' or (event == 'open' and arguments[2] & os.O_ACCMODE)
        if writes and name in str(arguments[0]):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    def run(folder: Path) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.addaudithook(hook)
        job(folder)

    return run


def run_cases(ready: Callable[[Path], None]) -> Iterator[Case]:
    """Work dirs that are in use, or hold what others wrote."""

    def others(folder: Path) -> None:
        ready(folder)
        (folder / 'work').mkdir()
        for name in ('epoch_9.txt', 'notes.partial', '.partial', 'detector.py', 'thesis.pth'):
            write_image(folder / 'work' / name)

    case = partial(Case, 'outputs', 'train')
    yield case('a work dir with files of others', train(*SMALL), others, 'work',
               makes=('work/epoch_1.pth',), writes=('work/detector.py',))  # fmt: skip
    yield case('checkpoint: full disk', full_disk('epoch_1.pth', train(*SMALL)), ready,
               says=('File too large',))  # fmt: skip
