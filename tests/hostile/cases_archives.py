"""Checkpoints: damaged archives and safetensors files."""

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from tests.hostile.commands import LOADERS, READERS, controls, in_each, open_checkpoint, put
from tests.hostile.damage import relisted
from tests.hostile.judge import Case
from tests.hostile.pickles import zipped
from tests.hostile.world import World


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """All of them: there are no random ones here."""
    yield from zip_cases(world)
    yield from safetensors_cases(world)


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


def torchscript() -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), buffer)
    return buffer.getvalue()


def one_tensor(
    name: bytes = b'X\1\0\0\x000', count: bytes = b'K\1', offset: bytes = b'K\0',
    size: bytes = b'K\1', stride: bytes = b'K\1',
) -> bytes:  # fmt: skip
    """A state dict of one float, with opcodes of its storage and its place in it."""
    storage = b'(X\7\0\0\0storagectorch\nFloatStorage\n' + name + b'X\3\0\0\0cpu' + count + b'tQ'
    place = offset + size + b'\x85' + stride + b'\x85'
    tensor = b'ctorch._utils\n_rebuild_tensor_v2\n(' + storage + place + b'\x89}tR'
    return zipped(b'}X\1\0\0\0a' + tensor + b's', **{'0': bytes(4)})


ZIPS: dict[str, Callable[[bytes], bytes]] = {
    'empty': lambda c: b'',
    'an empty archive': lambda c: b'PK\5\6' + bytes(18),
    'half': lambda c: c[: len(c) // 2],
    'without its end': lambda c: c[: c.rindex(b'PK\5\6')],
    'without its first kilobyte': lambda c: c[1024:],
    'zeros at its end': lambda c: c + bytes(4096),
    'twice': lambda c: c + c,
    'compressed': lambda c: rewritten(c, lambda n, r: r, compression=zipfile.ZIP_DEFLATED),
    'no pickle': lambda c: rewritten(c, lambda n, r: None if n.endswith('data.pkl') else r),
    'no storages': lambda c: rewritten(c, lambda n, r: None if '/data/' in n else r),
    'short storages': lambda c: rewritten(c, lambda n, r: r[:3] if '/data/' in n else r),
    'empty pickle': lambda c: rewritten(c, lambda n, r: b'' if n.endswith('data.pkl') else r),
    'odd byte order': lambda c: rewritten(c, lambda n, r: b'x' if 'byteorder' in n else r),
    'huge sizes': lambda c: relisted(c, 20, 'II', *[2**32 - 2] * 2),
    'sizes of zip64': lambda c: relisted(c, 20, 'II', *[2**32 - 1] * 2),
    'encrypted': lambda c: relisted(c, 8, 'H', 1),
    'unknown compression': lambda c: relisted(c, 10, 'H', 77),
    'compression without': lambda c: relisted(c, 10, 'H', 8),
    'TorchScript': lambda c: torchscript(),
    'a page': lambda c: b'<!DOCTYPE html><html>404</html>',
    'a storage of another type': lambda c: rewritten(
        c, lambda n, r: r.replace(b'HalfStorage', b'ByteStorage') if n.endswith('.pkl') else r
    ),
    'a storage of an unknown type': lambda c: rewritten(
        c, lambda n, r: r.replace(b'HalfStorage', b'HulfStorage') if n.endswith('.pkl') else r
    ),
    'another storage': lambda c: rewritten(
        c, lambda n, r: r.replace(b'X\1\0\0\0000', b'X\1\0\0\0009') if n.endswith('.pkl') else r
    ),
    'a storage above': lambda c: one_tensor(name=b'X\x0c\0\0\0../../../etc'),
    'more numbers than the storage': lambda c: one_tensor(size=b'J\0\0\0\x10'),
    'a negative offset': lambda c: one_tensor(offset=b'J\0\xff\xff\xff'),
    'a negative stride': lambda c: one_tensor(size=b'K\2', stride=b'J\xff\xff\xff\xff'),
    'a storage of 2**62 numbers': lambda c: one_tensor(count=b'\x8a\x08\0\0\0\0\0\0\0\x40'),
}  # fmt: skip
READABLE_ZIPS = {'zeros at its end', 'twice', 'sizes of zip64', 'odd byte order'}


DOORS = {**READERS, 'convert': LOADERS['convert']}


def zip_cases(world: World) -> Iterator[Case]:
    group, archive = 'checkpoints: archives', (world / 'backbone.pth').read_bytes()
    yield from controls(group, DOORS, 'backbone.pth', world)
    yield Case(group, 'open_checkpoint', 'bad', open_checkpoint('model.pth'),
               put('model.pth', archive[:-1000]), says=('model.pth is truncated or damaged',),
               is_control=True)  # fmt: skip
    for number, (what, change) in enumerate(ZIPS.items()):
        for how in (in_each(READERS, number), 'convert'):
            yield Case(group, how, what, DOORS[how].call('model.pth'),
                       put('model.pth', partial(change, archive)), says=('model.pth',),
                       expect='either' if what in READABLE_ZIPS else 'reject')  # fmt: skip


def safetensors_file(header: Any, data: bytes = bytes(16), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text) if length is None else length) + text + data


def tensor(dtype: str = 'F32', shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return dict(dtype=dtype, shape=shape, data_offsets=offsets)


SAFETENSORS: dict[str, bytes] = {
    'empty': b'',
    'huge length': safetensors_file({'a': tensor()}, length=2**63),
    'length beyond its end': safetensors_file({'a': tensor()}, length=1000),
    'no JSON': safetensors_file(b'{"a": '),
    'no text': safetensors_file(b'\xff\xfe{}'),
    'a list': safetensors_file([tensor()]),
    'deep': safetensors_file(b'[' * 200_000),
    'metadata is a list': safetensors_file({'__metadata__': [], 'a': tensor()}),
    'unknown dtype': safetensors_file({'a': tensor('F33')}),
    'strange dtype': safetensors_file({'a': tensor('F4', (32,))}),
    'huge side': safetensors_file({'a': tensor(shape=(2**62,))}),
    'another shape': safetensors_file({'a': tensor(shape=(5,))}),
    'offsets beyond': safetensors_file({'a': tensor(offsets=(0, 17))}),
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
    group, loose = 'checkpoints: safetensors', 'a.safetensors'
    doors = {how: LOADERS[how] for how in ('open_checkpoint', 'convert', 'init_cfg')}
    yield from controls(group, doors, 'backbone.safetensors', world)
    yield Case(group, 'open_checkpoint', 'bad', open_checkpoint(loose),
               put(loose, SAFETENSORS['no JSON']), says=(loose, 'header'),
               is_control=True)  # fmt: skip
    for number, (what, content) in enumerate(SAFETENSORS.items()):
        for how in ('open_checkpoint', in_each(('convert', 'init_cfg'), number)):
            yield Case(group, how, what, doors[how].call(loose), put(loose, content),
                       says=(loose,),
                       expect='either' if what in READABLE_SAFETENSORS else 'reject')  # fmt: skip
