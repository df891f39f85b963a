"""Checkpoints: hostile pickles, odd content, strange paths, resumed runs, random damage."""

import io
import os
import shutil
import socket
import struct
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.hostile.commands import (
    LOADERS,
    READERS,
    needs,
    put,
    read_predictions,
    same_tensors,
    train,
)
from tests.hostile.damage import damaged, damaged_near, with_bits
from tests.hostile.judge import Case
from tests.hostile.pickles import BODIES, FORMATS, HARMLESS, write_others, zipped
from tests.hostile.world import World, dice

MODEL = ('detector.py', 'shapes', 'images')  # what commands that build a model need


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """The fixed cases, and random ones: ``more`` times those of a short run."""
    yield from pickle_cases(world, more)
    yield from content_cases(world, more)
    yield from path_cases(world)
    yield from resume_cases(world, more)
    yield from random_cases(world, seed, more)


def loaders(number: int, all_of_them: bool) -> dict[str, Any]:
    """Every way to open a checkpoint, or the cheap ones and, in turn, one of the others."""
    if all_of_them:
        return LOADERS
    others = [name for name in LOADERS if name not in READERS]
    chosen = [list(READERS)[number % len(READERS)]]
    chosen += [others[number // 5 % len(others)]] if number % 5 == 0 else []
    return {name: LOADERS[name] for name in chosen}


def pickle_cases(world: World, more: int) -> Iterator[Case]:
    for number, (what, body) in enumerate(BODIES.items()):
        for place, (kind, form) in enumerate(FORMATS.items()):
            if more == 1 and (place + number) % 3 == 0:
                continue
            for how, load in loaders(number, more > 1).items():
                is_read = how == 'mmengine' and what in HARMLESS
                yield Case(
                    'checkpoints: pickles', f'{what}, {kind}, {how}', load('model.pth'),
                    put('model.pth', form(body), write_others, needs(world, *MODEL)),
                    expect='either' if is_read else 'reject',
                    says=() if is_read else ('model.pth',),
                )  # fmt: skip
        yield Case(
            'predictions: pickles', what, read_predictions('found.pkl'),
            put('found.pkl', FORMATS['pickle'](body), write_others),
            expect='either' if what in HARMLESS else 'reject',
        )  # fmt: skip


def good(world: World, **changes: Any) -> dict[str, Any]:
    """A checkpoint of the detector's run."""
    from mmeffvit.models.checkpoints.read import read_content

    content = read_content(world / 'run/epoch_2.pth')
    return {**content, **changes}


def saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of types that are new
        torch.save(content, buffer)
    return buffer.getvalue()


def with_tensor(world: World, change: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    content = good(world)
    key = next(k for k, v in content['state_dict'].items() if k.endswith('weight') and v.dim() == 4)
    content['state_dict'] = {**content['state_dict'], key: change(content['state_dict'][key])}
    return content


def stretched(size: int) -> torch.Tensor:
    """One number that claims to be ``size`` of them."""
    return torch.zeros(1).expand(size)


# what the values of a checkpoint may be, and which commands must reject it
MODELS = ('test', 'predict', 'export')
CONTENTS: dict[str, tuple[Callable[[World], Any], tuple[str, ...]]] = {
    'list': (lambda w: [torch.ones(2)], tuple(LOADERS)),
    'tensor': (lambda w: torch.ones(2), tuple(LOADERS)),
    'number': (lambda w: 5, tuple(LOADERS)),
    'text': (lambda w: 'state_dict', tuple(LOADERS)),
    'nothing': (lambda w: None, tuple(LOADERS)),
    'empty dict': (lambda w: {}, tuple(LOADERS)),
    'no tensors': (lambda w: {'state_dict': {}}, tuple(LOADERS)),
    'state dict is a list': (lambda w: good(w, state_dict=[1, 2]), tuple(LOADERS)),
    'state dict is None': (lambda w: good(w, state_dict=None), tuple(LOADERS)),
    'values are no tensors': (lambda w: {'state_dict': {'a': 1, 'b': 'x'}}, tuple(LOADERS)),
    'keys are numbers': (lambda w: {'state_dict': {1: torch.ones(1)}}, tuple(LOADERS)),
    'another model': (
        lambda w: {'state_dict': torch.nn.Linear(2, 2).state_dict()},
        tuple(set(LOADERS) - set(READERS)),  # what reads without a model cannot tell
    ),
    'another shape': (lambda w: with_tensor(w, lambda t: t[:1]), (*MODELS, 'resume')),
    'NaN': (lambda w: with_tensor(w, lambda t: t * float('nan')), (*LOADERS,)),
    'infinite': (lambda w: with_tensor(w, lambda t: t / 0), (*LOADERS,)),
    'one number as many': (lambda w: with_tensor(w, lambda t: stretched(10**10)), (*LOADERS,)),
    'one number as too many': (lambda w: with_tensor(w, lambda t: stretched(10**15)), (*LOADERS,)),
    'integers': (lambda w: with_tensor(w, lambda t: t.int()), ('init_cfg',)),
    'booleans': (lambda w: with_tensor(w, lambda t: t.bool()), ('init_cfg',)),
    'complex': (lambda w: with_tensor(w, lambda t: t.to(torch.complex64)), ('init_cfg',)),
    'sparse': (lambda w: with_tensor(w, lambda t: t.to_sparse()), ('init_cfg',)),
    'quantized': (
        lambda w: with_tensor(w, lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8)),
        ('init_cfg',),
    ),
    'meta': (lambda w: with_tensor(w, lambda t: t.to('meta')), ('init_cfg',)),
    'float8': (lambda w: with_tensor(w, lambda t: t.to(torch.float8_e4m3fn)), ()),
    'meta is None': (lambda w: good(w, meta=None), ()),
    'meta is a list': (lambda w: good(w, meta=[1]), ()),
    'meta is a text': (lambda w: good(w, meta='x'), ()),
    'dataset meta is a list': (lambda w: good(w, meta=dict(dataset_meta=[1])), ()),
    'classes are a number': (lambda w: good(w, meta=dict(dataset_meta=dict(classes=4))), ()),
    'classes are numbers': (
        lambda w: good(w, meta=dict(dataset_meta=dict(classes=(1, 2, 3, 4)))), ('test',)
    ),
    'palette is odd': (
        lambda w: good(w, meta={**good(w)['meta'], 'dataset_meta': dict(
            classes=('circle', 'square', 'triangle', 'star'), palette=[1, 2])}), ()
    ),
    'seed is a text': (lambda w: good(w, meta={**good(w)['meta'], 'seed': 'x'}), ()),
    'seed is huge': (lambda w: good(w, meta={**good(w)['meta'], 'seed': 2**200}), ()),
    'epoch is a text': (lambda w: good(w, meta={**good(w)['meta'], 'epoch': 'x'}), ('resume',)),
    'no meta': (lambda w: {'state_dict': good(w)['state_dict']}, ('resume',)),
    'no optimizer': (lambda w: {k: v for k, v in good(w).items() if k != 'optimizer'},
                     ('resume',)),
    'optimizer of another': (
        lambda w: good(w, optimizer=dict(state={}, param_groups=[])), ('resume',)
    ),
    'optimizer is a list': (lambda w: good(w, optimizer=[1]), ('resume',)),
    'message hub is a text': (lambda w: good(w, message_hub='x'), ('resume',)),
}  # fmt: skip
TOLERANT = ('mmengine',)  # gives back what the file holds


def content_cases(world: World, more: int) -> Iterator[Case]:
    expensive = [name for name in LOADERS if name not in READERS]
    for number, (what, (make, rejecting)) in enumerate(CONTENTS.items()):
        chosen = list(LOADERS) if more > 1 else [
            list(READERS)[number % 2],
            *(name for name in ('predict', 'resume') if rejecting == (name,)),
            *(name for name in expensive[number % 7 :] + expensive if name in rejecting[:7]),
        ][: 2 + (rejecting == ('resume',))]  # fmt: skip
        for how in dict.fromkeys(chosen):
            must = how in rejecting and how not in TOLERANT
            yield Case(
                'checkpoints: content', f'{what}, {how}', LOADERS[how]('model.pth'),
                put('model.pth', partial(lambda make: saved(make(world)), make),
                      needs(world, *MODEL)),
                expect='reject' if must else 'either', says=('model.pth',) if must else (),
            )  # fmt: skip
    for how, load in LOADERS.items():  # what is right passes
        if how == 'export' and more == 1:
            continue  # it takes long
        name = 'backbone.pth' if how in ('convert', 'init_cfg') else 'run/epoch_1.pth'
        yield Case(
            'checkpoints: content', f'good, {how}', load(name), needs(world, name, *MODEL),
            expect='work',
        )  # fmt: skip


def closed(folder: Path) -> None:
    (folder / 'model.pth').write_bytes(saved({}))
    (folder / 'model.pth').chmod(0)


def listening(folder: Path) -> None:
    where = os.getcwd()
    os.chdir(folder)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as end:
        end.bind('model.pth')
    os.chdir(where)


PATHS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    'missing': ('model.pth', lambda f: None),
    'folder': ('model.pth', lambda f: (f / 'model.pth').mkdir()),
    'pipe': ('model.pth', lambda f: os.mkfifo(f / 'model.pth')),
    'socket': ('model.pth', listening),
    'device that never ends': ('/dev/zero', lambda f: None),
    'empty device': ('/dev/null', lambda f: None),
    'link to a device': ('model.pth', lambda f: (f / 'model.pth').symlink_to('/dev/zero')),
    'loop of links': ('model.pth', lambda f: (f / 'model.pth').symlink_to('model.pth')),
    'dangling link': ('model.pth', lambda f: (f / 'model.pth').symlink_to('nowhere')),
    'no permission': ('model.pth', closed),
    'below a file': ('a/model.pth', lambda f: (f / 'a').write_text('')),
    'long name': ('n' * 300 + '.pth', lambda f: None),
    'long path': ('n/' * 3000 + 'a.pth', lambda f: None),
    'zero byte': ('a\0b.pth', lambda f: None),
    'no text': ('\udcff.pth', lambda f: (f / '\udcff.pth').write_text('x')),
    'escape sequences': ('\x1b[2J.pth', lambda f: (f / '\x1b[2J.pth').write_text('x')),
    'empty name': ('', lambda f: None),
    'blank': (' ', lambda f: None),
    'user that is none': ('~nobody_of_that_name/a.pth', lambda f: None),
    'address without a file': ('http://127.0.0.1:9/', lambda f: None),
    'address with a blank': ('http://127.0.0.1:9/a b.pth', lambda f: None),
    'open bracket': ('http://[::1/a.pth', lambda f: None),
    'no server': ('http://127.0.0.1:9/a.pth', lambda f: None),
    'port that is none': ('http://127.0.0.1:999999/a.pth', lambda f: None),
    'other scheme': ('ftp://127.0.0.1/a.pth', lambda f: None),
    'file scheme': ('file:///etc/passwd', lambda f: None),
    'hub without a name': ('hf://', lambda f: None),
    'hub with too many': ('hf://a', lambda f: None),
    'torchvision': ('torchvision://none', lambda f: None),
    'open-mmlab': ('open-mmlab://none', lambda f: None),
    'mmcls': ('mmcls://none', lambda f: None),
    'modelzoo': ('modelzoo://none', lambda f: None),
    'pavi': ('pavi://a/b.pth', lambda f: None),
    's3': ('s3://a/b.pth', lambda f: None),
}


def path_cases(world: World) -> Iterator[Case]:
    for number, (what, (name, prepare)) in enumerate(PATHS.items()):
        chosen = [list(READERS)[number % 2], list(LOADERS)[2 + number % (len(LOADERS) - 2)]]
        for how in chosen:
            if '\0' in name and how not in READERS:
                continue  # no command line has one
            yield Case(
                'checkpoints: paths', f'{what}, {how}', LOADERS[how](name),
                partial(lambda both, folder: [each(folder) for each in both],
                        (prepare, needs(world, *MODEL))),
            )  # fmt: skip
    for kind in ('pipe', 'loop of links', 'folder', 'no permission', 'missing'):
        name, prepare = PATHS[kind]
        for suffix in ('.safetensors', '.pkl'):
            other = Path(name).with_suffix(suffix).name

            def rename(folder: Path, prepare=prepare, name=name, other=other) -> None:
                prepare(folder)
                if os.path.lexists(folder / name):
                    (folder / name).rename(folder / other)

            read = read_predictions if suffix == '.pkl' else LOADERS['open_checkpoint']
            yield Case('checkpoints: paths', f'{kind}, {suffix}', read(other), rename)


def third(world: World, make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """A work dir whose latest checkpoint is not one."""

    def prepare(folder: Path) -> None:
        needs(world, 'detector.py', 'shapes')(folder)
        shutil.copytree(world / 'run', folder / 'work')
        make(folder / 'work' / 'epoch_3.pth')

    return prepare


THIRD: dict[str, Callable[[Path], Any]] = {
    'none': lambda path: None,
    'empty': lambda path: path.touch(),
    'one byte': lambda path: path.write_bytes(b'P'),
    'folder': lambda path: path.mkdir(),
    'pipe': lambda path: os.mkfifo(path),
    'loop of links': lambda path: path.symlink_to(path.name),
    'dangling link': lambda path: path.symlink_to('nowhere'),
    'payload': lambda path: path.write_bytes(zipped(BODIES['os.system'])),
    'half': lambda path: path.write_bytes((path.parent / 'epoch_2.pth').read_bytes()[:90_000]),
    'flipped list': lambda path: path.write_bytes(
        with_bits((path.parent / 'epoch_2.pth').read_bytes(), 10, 77)
    ),
    'bare state dict': lambda path: path.write_bytes(saved({'a': torch.ones(1)})),
    'list': lambda path: path.write_bytes(saved([1])),
    'no permission': lambda path: (path.write_bytes(b'x'), path.chmod(0)),
}


def resume_cases(world: World, more: int) -> Iterator[Case]:
    """With ``--resume``, a run takes the latest valid checkpoint, which was its last."""
    for number, (what, make) in enumerate(THIRD.items()):
        if more == 1 and number % 2:
            continue
        yield Case(
            'resume', f'latest is: {what}', train(arguments=('--resume',)), third(world, make),
            expect='work', writes=('work',),
        )  # fmt: skip


def random_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Random damage, some of it where the structure of the file is."""
    from safetensors.torch import load_file

    from mmeffvit.models.checkpoints import open_checkpoint
    from mmeffvit.models.checkpoints.read import read_content

    content = (world / 'backbone.pth').read_bytes()
    state = {k: v.clone() for k, v in read_content(world / 'backbone.pth')['state_dict'].items()}
    header = len(content) - directory_size(content)
    places = (('anywhere', 0, len(content)), ('list', header, len(content) - header),
              ('pickle', 0, 20_000))  # fmt: skip
    for number in range(15 * more):
        where, start, width = places[number % 3]

        def make(number=number, start=start, width=width) -> bytes:
            return damaged_near(content, start, width, dice('zip', seed, number))

        def read(folder: Path) -> None:
            same_tensors(lambda: read_content('model.pth')['state_dict'], state)

        yield Case('checkpoints: random', f'archive {number}, {where}', read,
                   put('model.pth', make), expect='either')  # fmt: skip
    old = (world / 'old.pth').read_bytes()
    loose = (world / 'backbone.safetensors').read_bytes()
    assert load_file(world / 'backbone.safetensors').keys() == state.keys()
    length = struct.unpack('<Q', loose[:8])[0]
    found = (world / 'found.pkl').read_bytes()
    for number in range(10 * more):
        for what, name, source, width, read in (
            ('old format', 'old.pth', old, 20_000, READERS['mmengine']('old.pth')),
            ('safetensors', 'a.safetensors', loose, length + 8,
             lambda folder: open_checkpoint(Path('a.safetensors'))),
            ('predictions', 'found.pkl', found, len(found), read_predictions('found.pkl')),
        ):  # fmt: skip
            yield Case(
                'checkpoints: random', f'{what} {number}', read,
                put(name, partial(lambda s, w, key: damaged_near(s, 0, w, dice(*key)),
                                    source, width, (what, seed, number))),
                expect='either',
            )  # fmt: skip
    whole = (world / 'run/epoch_2.pth').read_bytes()
    for number in range(2 * more):
        yield Case(
            'checkpoints: random', f'predict {number}', LOADERS['predict']('model.pth'),
            put('model.pth', partial(lambda n: damaged(whole, dice('predict', seed, n)), number),
                  needs(world, *MODEL)),
            expect='either',
        )  # fmt: skip


def directory_size(content: bytes) -> int:
    """Bytes of the list of an archive, and of what follows it."""
    return len(content) - content.index(b'PK\x01\x02')
