"""Checkpoints: odd content, strange paths, random damage."""

import io
import os
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
    READ_PICKLE,
    READERS,
    controls,
    good_checkpoint,
    in_each,
    in_turn,
    needs,
    open_checkpoint,
    put,
    read_as_mmengine,
    read_content,
    read_predictions,
    same_tensors,
    spelled,
)  # fmt: skip
from tests.hostile.damage import damaged_near
from tests.hostile.judge import Case
from tests.hostile.pickles import BODIES, zipped
from tests.hostile.world import World, dice

MODEL = ('detector.py', 'shapes', 'images')  # what commands that build a model need


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """The fixed cases, and random ones: ``more`` times those of a short run."""
    yield from content_cases(world)
    yield from path_cases(world)
    yield from random_cases(world, seed, more)


def good(world: World, **changes: Any) -> dict[str, Any]:
    """A checkpoint of the detector's run."""
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
    'nothing': (lambda w: None, tuple(LOADERS)),
    'empty dict': (lambda w: {}, tuple(LOADERS)),
    'no tensors': (lambda w: {'state_dict': {}}, tuple(LOADERS)),
    'state dict is a list': (lambda w: good(w, state_dict=[1, 2]), tuple(LOADERS)),
    'values are no tensors': (lambda w: {'state_dict': {'a': 1, 'b': 'x'}}, tuple(LOADERS)),
    'keys are numbers': (lambda w: {'state_dict': {1: torch.ones(1)}}, tuple(LOADERS)),
    'another model': (
        lambda w: {'state_dict': torch.nn.Linear(2, 2).state_dict()},
        tuple(set(LOADERS) - set(READERS)),  # what reads without a model cannot tell
    ),
    'another shape': (lambda w: with_tensor(w, lambda t: t[:1]), (*MODELS, 'resume')),
    'NaN': (lambda w: with_tensor(w, lambda t: t * float('nan')), (*LOADERS,)),
    'one number as many': (lambda w: with_tensor(w, lambda t: stretched(10**10)), (*LOADERS,)),
    'one number as too many': (lambda w: with_tensor(w, lambda t: stretched(10**15)), (*LOADERS,)),
    'integers': (lambda w: with_tensor(w, lambda t: t.int()), ('init_cfg',)),
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


def content_cases(world: World) -> Iterator[Case]:
    group, ready = 'checkpoints: content', needs(world, *MODEL)
    for how, door in LOADERS.items():
        yield from controls(group, {how: door}, good_checkpoint(how), world, *MODEL)
    yield Case(group, 'open_checkpoint', 'bad', open_checkpoint('model.pth'),
               put('model.pth', saved([1])), says=('model.pth holds a list',),
               is_control=True)  # fmt: skip
    yield Case(group, 'export', 'payload', LOADERS['export'].call('model.pth'),
               put('model.pth', zipped(BODIES['os.system']), ready),
               says=('model.pth is rejected', 'os.system'))  # fmt: skip
    for what, (make, rejecting) in CONTENTS.items():
        for how, door in LOADERS.items():
            if how == 'export' and how not in rejecting:
                continue  # it takes long
            must = how in rejecting and how not in TOLERANT
            yield Case(
                group, how, what, door.call('model.pth'),
                put('model.pth', partial(lambda make: saved(make(world)), make), ready),
                expect='reject' if must else 'either', says=('model.pth',),
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
    'escape sequences': ('\x1b]2J.pth', lambda f: (f / '\x1b]2J.pth').write_text('x')),
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
    'pavi': ('pavi://a/b.pth', lambda f: None),
    's3': ('s3://a/b.pth', lambda f: None),
}


def path_cases(world: World) -> Iterator[Case]:
    group, ready = 'checkpoints: paths', needs(world, *MODEL)
    doors = {how: door for how, door in LOADERS.items() if how != 'export'}  # it takes long
    others = [how for how in doors if how not in READERS]
    for how, door in doors.items():
        yield from controls(group, {how: door}, good_checkpoint(how), world, *MODEL)
    yield from controls(group, {'read_pickle': READ_PICKLE}, 'found.pkl', world)
    yield Case(group, 'open_checkpoint', 'bad', open_checkpoint('none.pth'),
               says=("'none.pth' does not exist",), is_control=True)  # fmt: skip
    for number, (what, (name, prepare)) in enumerate(PATHS.items()):
        for how in (in_each(READERS, number), in_each(others, number)):
            if how not in READERS and (not name or '\0' in name):
                continue  # a command line has none
            yield Case(group, how, what, doors[how].call(name), in_turn(ready, prepare),
                       says=(spelled(name) or "checkpoint ''",))  # fmt: skip
    for kind in ('pipe', 'loop of links', 'folder', 'no permission', 'missing'):
        name, prepare = PATHS[kind]
        for how, door, suffix in (('open_checkpoint', READERS['open_checkpoint'], '.safetensors'),
                                  ('read_pickle', READ_PICKLE, '.pkl')):  # fmt: skip
            other = Path(name).with_suffix(suffix).name

            def rename(folder: Path, name=name, other=other) -> None:
                if os.path.lexists(folder / name):
                    (folder / name).rename(folder / other)

            yield Case(group, how, f'{kind}, {suffix}', door.call(other),
                       in_turn(prepare, rename), says=(other,))  # fmt: skip


def random_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Random damage, some of it where the structure of the file is."""
    group = 'checkpoints: random'
    content = (world / 'backbone.pth').read_bytes()
    state = {k: v.clone() for k, v in read_content(world / 'backbone.pth')['state_dict'].items()}
    loose, old = (world / 'backbone.safetensors').read_bytes(), (world / 'old.pth').read_bytes()
    found, whole = ((world / name).read_bytes() for name in ('found.pkl', 'run/epoch_2.pth'))

    def same(name: str) -> Callable[[Path], None]:
        return lambda _: print(same_tensors(lambda: read_content(name)['state_dict'], state))

    header = len(content) - directory_size(content)
    length = struct.unpack('<Q', loose[:8])[0]
    kinds = (  # door, its job, file, its content, where the damage is
        ('read_content', same('a.pth'), 'a.pth', content, 0, len(content)),
        ('read_content', same('b.pth'), 'b.pth', content, header, len(content) - header),
        ('read_content', same('c.pth'), 'c.pth', content, 0, 20_000),
        ('mmengine', read_as_mmengine('old.pth'), 'old.pth', old, 0, 20_000),
        ('open_checkpoint', open_checkpoint('a.safetensors'), 'a.safetensors', loose, 0,
         length + 8),
        ('read_pickle', read_predictions('found.pkl'), 'found.pkl', found, 0, len(found)),
        ('predict', LOADERS['predict'].call('model.pth'), 'model.pth', whole, 0, len(whole)),
    )  # fmt: skip
    words = dict(read_content='None', mmengine='is loaded', open_checkpoint='298 tensors',
                 read_pickle='is loaded', predict='1 image')  # fmt: skip
    for how, job, name, source, *_ in kinds:
        yield Case(group, how, f'good {name}', job, put(name, source, needs(world, *MODEL)),
                   'work', (words[how],), is_control=True)  # fmt: skip
    yield Case(group, 'read_content', 'bad', same('a.pth'), put('a.pth', content[:-1000]),
               says=('a.pth is truncated or damaged',), is_control=True)  # fmt: skip
    for how, job, name, source, start, width in kinds:
        for number in range((2 if how == 'predict' else 8) * more):

            def spoilt(key: Any = (name, seed, number), source: bytes = source,
                       start: int = start, width: int = width) -> bytes:  # fmt: skip
                return damaged_near(source, start, width, dice(*key))

            ready = needs(world, *MODEL) if how == 'predict' else in_turn()
            yield Case(group, how, f'{name} {number}', job, put(name, spoilt, ready),
                       expect='either', says=(name,))  # fmt: skip


def directory_size(content: bytes) -> int:
    """Bytes of the list of an archive, and of what follows it."""
    return len(content) - content.index(b'PK\x01\x02')
