"""Pickles by hand, in the two formats of torch."""

import io
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.hostile.judge import CANARY

START, END = b'\x80\x02', b'.'


def text(value: str) -> bytes:
    encoded = value.encode()
    return pickle.BINUNICODE + len(encoded).to_bytes(4, 'little') + encoded


def integer(value: int) -> bytes:
    return pickle.BININT + value.to_bytes(4, 'little', signed=True)


def dtype(name: str) -> bytes:
    """``numpy.dtype(NAME, False, True)``."""
    return b'cnumpy\ndtype\n(' + text(name) + b'\x89\x88tR'


def array(kind: bytes, content: bytes, shape: bytes) -> bytes:
    """``_reconstruct`` of an array, and the state that gives it its type and bytes."""
    start = b'cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n' + integer(0) + b'\x85'
    encoded = b'c_codecs\nencode\n(' + text(content.decode('latin1')) + text('latin1') + b'tR'
    first = b'c_codecs\nencode\n(' + text('b') + text('latin1') + b'tR'
    return start + first + b'tR(' + integer(1) + shape + kind + b'\x89' + encoded + b'tb'


POINTERS = b'\x41' * 64  # addresses of nothing, were they taken for those of objects
OBJECT_STATE = (
    b'(' + integer(3) + text('|') + b'NNN' + integer(8) + integer(8) + integer(63) + b'tb'
)
SIDES = b'(' + integer(8) + b't'
HISTORY = b'cmmengine.logging.history_buffer\nHistoryBuffer\n'
TOUCH = text(f'open({CANARY!r}, "w")')


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return f'c{module}\n{name}\n('.encode() + b''.join(arguments) + b'tR'


def pairs(depth: int) -> bytes:
    """A tuple of two equal tuples of two equal ones...: 2**depth leaves, which a hash visits."""
    return b')' + b'q\0h\0\x86' * depth


def lists(depth: int) -> bytes:
    """Lists inside of lists."""
    return b']' * depth + b'a' * (depth - 1)


class Payload:
    """Creates the canary when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(CANARY),)


class Beyond:
    """A tensor of 1000 numbers in a storage of two."""

    def __reduce__(self) -> tuple[Any, ...]:
        storage = torch.zeros(2)._typed_storage()
        return torch._utils._rebuild_tensor_v2, (storage, 0, (1000,), (1,), False, {})


BODIES: dict[str, bytes] = {
    'a tensor beyond its storage': pickle.dumps([Beyond()], 2)[2:-1],
    'state of a copied dtype': array(dtype('f8') + OBJECT_STATE, POINTERS, SIDES),
    'object dtype': array(dtype('O8'), POINTERS, SIDES),
    'more numbers than bytes': array(dtype('f8'), b'\0' * 8, b'(' + integer(10**9) + b't'),
    'negative side': array(dtype('f8'), b'\0' * 8, b'(' + integer(-1) + b't'),
    'object scalar': b'cnumpy._core.multiarray\nscalar\n(' + dtype('O8') + text('x') + b'tR',
    'short scalar': b'cnumpy.core.multiarray\nscalar\n(' + dtype('f8') + text('x') + b'tR',
    'array with a buffer': b'cnumpy\nndarray\n(' + SIDES + dtype('O8') + text('x') + b't\x81',
    'state of a class': b'cnumpy\nndarray\n}' + text('tobytes') + text('x') + b'sb',
    'state of a function': b'c_codecs\nencode\n}' + text('call') + text('x') + b'sb',
    'os.system': call('os', 'system', text(f'touch {CANARY}')),
    'posix.system': call('posix', 'system', text(f'touch {CANARY}')),
    'subprocess': call('subprocess', 'Popen', text(f'touch {CANARY}'), integer(-1),
                       b'NNNN\x89\x88'),
    'eval': call('builtins', 'eval', TOUCH),
    'exec': call('builtins', 'exec', TOUCH),
    'eval of Python 2': call('__builtin__', 'eval', TOUCH),
    'pathlib': call('pathlib', 'Path.touch', call('pathlib', 'Path', text(CANARY))),
    'open': call('builtins', 'open', text(CANARY), text('w')),
    'getattr of os': call('builtins', 'getattr', b'cos\nsystem\n', text('__call__')),
    'getattr of a history': call('builtins', 'getattr', HISTORY, text('__init__')),
    'getattr of a module': call('builtins', 'getattr', b'cos\n__dict__\n', text('get')),
    'partial': call('functools', 'partial', b'cos\nsystem\n', text(f'touch {CANARY}')),
    'map': call('builtins', 'list', call('builtins', 'map', b'cos\nsystem\n',
                                         b'](' + text(f'touch {CANARY}') + b'e')),
    'runpy': call('runpy', '_run_code', TOUCH, b'}'),
    'torch storage': call('torch.storage', '_load_from_bytes',
                          b'c_codecs\nencode\n(' + text('x') + text('latin1') + b'tR'),
    'torch.load': call('torch.serialization', 'load', text('other.pth')),
    'numpy.load': call('numpy', 'load', text('other.npy'), b'N\x88'),
    'torch.ops': call('torch._ops', '_OpNamespace', text('os')),
    'torch.jit': call('torch.jit', 'load', text('other.pt')),
    'inst': b'(' + text(f'touch {CANARY}') + b'ios\nsystem\n',
    'obj': b'(cos\nsystem\n' + text(f'touch {CANARY}') + b'o',
    'stack global': text('os') + text('system') + b'\x93' + text(f'touch {CANARY}') + b'\x85R',
    'newobj': b'cos\nsystem\n' + text(f'touch {CANARY}') + b'\x85\x81',
    'newobj with keywords': b'cos\nsystem\n' + text(f'touch {CANARY}') + b'\x85}\x92',
    'extension': b'\x82\x01',
    'persistent id': b'Pstorage\n',
    'persistent tuple': text('storage') + b'\x85Q',
    'history with a method': (
        HISTORY + b')\x81}(' + text('_statistics_methods')
        + b'}' + text('mean') + b'cos\nsystem\nsub'
    ),
    'rebuild with a hook': call('torch._utils', '_rebuild_parameter', b'N\x88cos\nsystem\n'),
    'build with slots': (
        b'ccollections\nOrderedDict\n)R(}' + text('__class__') + b'cos\nsystem\ns}tb'
    ),
    'ordered dict': call('collections', 'OrderedDict', b'cos\nenviron\n'),
    'a class of mmengine': call('mmengine.config', 'Config.fromfile', text('other.py')),
    'a class of numpy': call('numpy.f2py.crackfortran', 'getlincoef', TOUCH, b'}'),
    'protocol 4 frame': b'\x95' + (2**40).to_bytes(8, 'little') + b'N',
    'unknown opcode': b'\xfe',
    'no stack': b'tR',
    'nothing': b'',
    'pop of nothing': b'0',
    'memo of nothing': b'h\x07',
    'mark of nothing': b'\x90',
    'more bytes than there are': b'\x8e' + (2**50).to_bytes(8, 'little'),
    'long text': b'X' + (2**31).to_bytes(4, 'little'),
    'no text': b'X\x02\0\0\0\xff\xff',
    'deep lists': lists(200_000),
    'tuples that double, as a key': b'}' + pairs(60) + b'Ns',
    'tuples that double': pairs(60),
    'a number of 2,000 digits': b'}\x8a\xff' + b'\x7f' * 255 + b'Ns',
    'a list as a key': b'}]Ns',
    'itself': b']q\0h\0a',
    'a dict with itself': b'}q\0' + text('state_dict') + b'h\0s',
}  # fmt: skip

HARMLESS = {  # they hold plain values, which a reader that asks for no weights gives back
    'deep lists', 'tuples that double', 'a number of 2,000 digits', 'itself', 'a dict with itself',
}  # fmt: skip


def old(body: bytes) -> bytes:
    """A pickle alone, as torch < 1.6 wrote it, all of its parts the same."""
    magic = START + b'\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'
    version = START + b'M\xe9\x03.'
    return magic + version + START + b'}.' + START + body + END + START + b'].'


def zipped(body: bytes, **records: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w') as archive:
        archive.writestr('a/data.pkl', START + body + END)
        archive.writestr('a/version', '3\n')
        archive.writestr('a/byteorder', 'little')
        for name, record in records.items():
            archive.writestr(f'a/data/{name}', record)
    return content.getvalue()


FORMATS: dict[str, Callable[[bytes], bytes]] = {
    'pickle': lambda body: START + body + END,
    'old': old,
    'zip': zipped,
}


def write_others(folder: Path) -> None:
    """What a payload would like to have opened."""
    import numpy as np

    torch.save(Payload(), folder / 'other.pth')
    np.save(folder / 'other.npy', np.array([Payload()], dtype=object), allow_pickle=True)
    (folder / 'other.py').write_text(f'open({CANARY!r}, "w")')


# single opcodes, arguments and calls, in any order
PIECES = (
    *(bytes([code]) for code in b'(.0120NRabcdeijlostQ)}]u\x81\x85\x86\x87\x88\x89'),
    *(bytes([code]) for code in b'\x8f\x90\x91\x93'),
    *(code + bytes([index]) for index in range(3) for code in (b'h', b'q')),
    b'K\x01', integer(-1), integer(2**31 - 1), b'G' + bytes(8), b'\x8a\x01\x7f', b'U\x01x',
    b'C\x01x', text(''), text('os'), text('system'), text(f'touch {CANARY}'), text('storage'),
    b'cos\nsystem\n', b'cnumpy\ndtype\n', b'cnumpy\nndarray\n', HISTORY, b'ctorch\nSize\n',
    b'cnumpy._core.multiarray\n_reconstruct\n', b'cnumpy._core.multiarray\nscalar\n',
    b'c_codecs\nencode\n', b'cbuiltins\ngetattr\n', b'ccollections\nOrderedDict\n',
    b'ctorch\nFloatStorage\n', b'ctorch._utils\n_rebuild_tensor_v2\n', b'\x80\x02', b'\x80\x05',
    *BODIES.values(),
)  # fmt: skip


def program(source: bytes, dice: random.Random) -> bytes:
    """Random pieces; or a pickle with up to four changes: bytes or pieces put in, or doubled."""
    if dice.random() < 0.5:
        return b''.join(dice.choices(PIECES, k=dice.randrange(13)))
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(source))
        end = start + dice.randint(0, 12)
        new = dice.choice((dice.randbytes(dice.randrange(7)), dice.choice(PIECES),
                           source[start:end] * 2))  # fmt: skip
        source = source[:start] + new + source[end:]
    return source
