"""Checkpoints: hostile pickles, odd content, damaged archives, safetensors, strange paths."""

import io
import json
import os
import shutil
import socket
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .commands import LOADERS, READERS, needs, read_predictions, same_tensors, train
from .damage import damaged, damaged_near
from .judge import Case
from .pickles import BODIES, FORMATS, HARMLESS, write_others, zipped
from .world import World, dice

MODEL = ('detector.py', 'shapes', 'images')  # what commands that build a model need


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """The fixed cases, and random ones: ``more`` times those of a short run."""
    yield from pickle_cases(world, more)
    yield from content_cases(world, more)
    yield from zip_cases(world)
    yield from safetensors_cases(world)
    yield from path_cases(world)
    yield from resume_cases(world, more)
    yield from random_cases(world, seed, more)


def write(name: str, content: bytes | Callable[[], bytes], *inside: Any) -> Callable[[Path], None]:
    """Prepare a folder: a file, and what else ``inside`` puts there."""

    def prepare(folder: Path) -> None:
        for each in inside:
            each(folder)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content())

    return prepare


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
                    write('model.pth', form(body), write_others, needs(world, *MODEL)),
                    expect='either' if is_read else 'reject',
                    says=() if is_read else ('model.pth',),
                )  # fmt: skip
        yield Case(
            'predictions: pickles', what, read_predictions('found.pkl'),
            write('found.pkl', FORMATS['pickle'](body), write_others),
            expect='either' if what in HARMLESS else 'reject',
        )  # fmt: skip


def good(world: World, **changes: Any) -> dict[str, Any]:
    """A checkpoint of the detector's run."""
    from mmeffvit.checkpoints.read import read_content

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
                write('model.pth', partial(lambda make: saved(make(world)), make),
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


def archive(world: World) -> bytes:
    return (world / 'backbone.pth').read_bytes()


def rewritten(content: bytes, edit: Callable[[str, bytes], Any], **options: Any) -> bytes:
    """The archive with every record as ``edit(name, record)`` gives it; None leaves it out."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(made, 'w', **options) as target,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter('ignore')  # of one name twice
        for entry in source.infolist():
            result = edit(entry.filename, source.read(entry))
            if result is not None:
                target.writestr(entry.filename, result)
    return made.getvalue()


def with_sizes(content: bytes, size: int) -> bytes:
    """The archive with another size of every record in its list."""
    changed = bytearray(content)
    start = 0
    while (start := changed.find(b'PK\x01\x02', start)) >= 0:
        changed[start + 20 : start + 28] = struct.pack('<II', size, size)
        start += 4
    return bytes(changed)


def with_bits(content: bytes, offset: int, value: int) -> bytes:
    """The archive with two bytes changed in every entry of its list."""
    changed = bytearray(content)
    start = 0
    while (start := changed.find(b'PK\x01\x02', start)) >= 0:
        struct.pack_into('<H', changed, start + offset, value)
        start += 4
    return bytes(changed)


def torchscript() -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), buffer)
    return buffer.getvalue()


ZIPS: dict[str, Callable[[bytes], bytes]] = {
    'empty': lambda c: b'',
    'one byte': lambda c: b'P',
    'an empty archive': lambda c: b'PK\5\6' + bytes(18),
    'half': lambda c: c[: len(c) // 2],
    'without its last byte': lambda c: c[:-1],
    'without its end': lambda c: c[: c.rindex(b'PK\5\6')],
    'without its first kilobyte': lambda c: c[1024:],
    'zeros at its end': lambda c: c + bytes(4096),
    'twice': lambda c: c + c,
    'compressed': lambda c: rewritten(c, lambda n, r: r, compression=zipfile.ZIP_DEFLATED),
    'compressed by lzma': lambda c: rewritten(c, lambda n, r: r, compression=zipfile.ZIP_LZMA),
    'no pickle': lambda c: rewritten(c, lambda n, r: None if n.endswith('data.pkl') else r),
    'no storages': lambda c: rewritten(c, lambda n, r: None if '/data/' in n else r),
    'short storages': lambda c: rewritten(c, lambda n, r: r[:3] if '/data/' in n else r),
    'empty pickle': lambda c: rewritten(c, lambda n, r: b'' if n.endswith('data.pkl') else r),
    'odd byte order': lambda c: rewritten(c, lambda n, r: b'x' if 'byteorder' in n else r),
    'huge sizes': lambda c: with_sizes(c, 2**32 - 2),
    'sizes of zip64': lambda c: with_sizes(c, 2**32 - 1),
    'encrypted': lambda c: with_bits(c, 8, 1),
    'unknown compression': lambda c: with_bits(c, 10, 77),
    'compression without': lambda c: with_bits(c, 10, 8),
    'TorchScript': lambda c: torchscript(),
    'a table of text': lambda c: b'a,b\n1,2\n' * 1000,
    'a picture': lambda c: b'\x89PNG\r\n\x1a\n' + bytes(100),
    'a page': lambda c: b'<!DOCTYPE html><html>404</html>',
    'zeros': lambda c: bytes(10**6),
    'a storage of another type': lambda c: rewritten(
        c, lambda n, r: r.replace(b'HalfStorage', b'ByteStorage') if n.endswith('.pkl') else r
    ),
    'a storage of an unknown type': lambda c: rewritten(
        c, lambda n, r: r.replace(b'HalfStorage', b'HulfStorage') if n.endswith('.pkl') else r
    ),
    'another storage': lambda c: rewritten(
        c, lambda n, r: r.replace(b'X\1\0\0\0000', b'X\1\0\0\0009') if n.endswith('.pkl') else r
    ),
    'a storage above': lambda c: zipped(
        b'}X\1\0\0\0a' + b'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage'
        b'ctorch\nFloatStorage\nX\x0c\0\0\0../../../etcX\3\0\0\0cpuK\1tQK\0K\1\x85K\1\x85\x89}tRs'
    ),
    'more numbers than the storage': lambda c: zipped(
        b'}X\1\0\0\0a' + b'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage'
        b'ctorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\1tQK\0J\0\0\0\x10\x85K\1\x85\x89}tRs',
        **{'0': bytes(4)},
    ),
    'a negative offset': lambda c: zipped(
        b'}X\1\0\0\0a' + b'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage'
        b'ctorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\1tQJ\0\xff\xff\xffK\1\x85K\1\x85\x89}tRs',
        **{'0': bytes(4)},
    ),
    'a negative stride': lambda c: zipped(
        b'}X\1\0\0\0a' + b'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage'
        b'ctorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\1tQK\0K\2\x85'
        b'J\xff\xff\xff\xff\x85\x89}tRs',
        **{'0': bytes(4)},
    ),
    'a storage of 2**62 numbers': lambda c: zipped(
        b'}X\1\0\0\0a' + b'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage'
        b'ctorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu\x8a\x08\0\0\0\0\0\0\0\x40tQ'
        b'K\0K\1\x85K\1\x85\x89}tRs',
        **{'0': bytes(4)},
    ),
}  # fmt: skip
READABLE_ZIPS = {'zeros at its end', 'twice', 'sizes of zip64', 'odd byte order'}


def zip_cases(world: World) -> Iterator[Case]:
    for number, (what, change) in enumerate(ZIPS.items()):
        for name, read in (list(READERS.items())[number % 2], ('convert', LOADERS['convert'])):
            yield Case(
                'checkpoints: archives', f'{what}, {name}', read('model.pth'),
                write('model.pth', partial(lambda f: f(archive(world)), change)),
                expect='either' if what in READABLE_ZIPS else 'reject',
            )  # fmt: skip


def safetensors_file(header: Any, data: bytes = bytes(16), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text) if length is None else length) + text + data


def tensor(dtype: str = 'F32', shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return dict(dtype=dtype, shape=shape, data_offsets=offsets)


SAFETENSORS: dict[str, bytes] = {
    'empty': b'',
    'seven bytes': bytes(7),
    'length alone': bytes(8),
    'huge length': safetensors_file({'a': tensor()}, length=2**63),
    'length of all': safetensors_file({'a': tensor()}, length=2**64 - 1),
    'length beyond its end': safetensors_file({'a': tensor()}, length=1000),
    'no JSON': safetensors_file(b'{"a": '),
    'no text': safetensors_file(b'\xff\xfe{}'),
    'a list': safetensors_file([tensor()]),
    'deep': safetensors_file(b'[' * 200_000),
    'deep metadata': safetensors_file(b'{"__metadata__":' + b'{"a":' * 100_000),
    'metadata of numbers': safetensors_file({'__metadata__': {'a': 1}, 'a': tensor()}),
    'metadata is a list': safetensors_file({'__metadata__': [], 'a': tensor()}),
    'no dtype': safetensors_file({'a': dict(shape=[4], data_offsets=[0, 16])}),
    'unknown dtype': safetensors_file({'a': tensor('F33')}),
    'strange dtype': safetensors_file({'a': tensor('F4', (32,))}),
    'negative side': safetensors_file({'a': tensor(shape=(-4,))}),
    'huge side': safetensors_file({'a': tensor(shape=(2**62,))}),
    'sides that overflow': safetensors_file({'a': tensor(shape=(2**32, 2**32, 4))}),
    'broken side': safetensors_file({'a': tensor(shape=(4.5,))}),
    'another shape': safetensors_file({'a': tensor(shape=(5,))}),
    'offsets beyond': safetensors_file({'a': tensor(offsets=(0, 17))}),
    'offsets in reverse': safetensors_file({'a': tensor(offsets=(16, 0))}),
    'negative offsets': safetensors_file({'a': tensor(offsets=(-16, 0))}),
    'one offset': safetensors_file({'a': tensor(offsets=(0,))}),
    'overlap': safetensors_file({'a': tensor(), 'b': tensor()}),
    'hole': safetensors_file({'a': tensor(offsets=(16, 32))}, bytes(32)),
    'left over': safetensors_file({'a': tensor()}, bytes(32)),
    'twice the same key': safetensors_file(
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},'
        b'"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    ),
    'NaN': safetensors_file({'a': tensor()}, b'\xff' * 16),
    'no tensors': safetensors_file({}, b''),
    'a torch file': zipped(b'}'),
    'a pickle': b'\x80\x02}.',
    'escape sequences': safetensors_file({'\x1b[2J\n': tensor('F33')}),
}
READABLE_SAFETENSORS = {'twice the same key', 'no tensors', 'strange dtype'}


def safetensors_cases(world: World) -> Iterator[Case]:
    for number, (what, content) in enumerate(SAFETENSORS.items()):
        chosen = ['open_checkpoint'] + (['convert'] if number % 3 == 0 else [])
        for how in chosen:
            yield Case(
                'checkpoints: safetensors', f'{what}, {how}', LOADERS[how]('a.safetensors'),
                write('a.safetensors', content), says=('a.safetensors',),
                expect='either' if what in READABLE_SAFETENSORS else 'reject',
            )  # fmt: skip
    yield Case(
        'checkpoints: safetensors', 'good', LOADERS['init_cfg']('backbone.safetensors'),
        needs(world, 'backbone.safetensors'), expect='work',
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

    from mmeffvit.checkpoints import open_checkpoint
    from mmeffvit.checkpoints.read import read_content

    content = archive(world)
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
                   write('model.pth', make), expect='either')  # fmt: skip
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
                write(name, partial(lambda s, w, key: damaged_near(s, 0, w, dice(*key)),
                                    source, width, (what, seed, number))),
                expect='either',
            )  # fmt: skip
    whole = (world / 'run/epoch_2.pth').read_bytes()
    for number in range(2 * more):
        yield Case(
            'checkpoints: random', f'predict {number}', LOADERS['predict']('model.pth'),
            write('model.pth', partial(lambda n: damaged(whole, dice('predict', seed, n)), number),
                  needs(world, *MODEL)),
            expect='either',
        )  # fmt: skip


def directory_size(content: bytes) -> int:
    """Bytes of the list of an archive, and of what follows it."""
    return len(content) - content.index(b'PK\x01\x02')
