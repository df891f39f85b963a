"""Safe stand-ins for the functions that pickles may call in addition to torch's.

A checkpoint of mmengine's runner has its log history, and scalars and arrays of numpy. numpy's own
functions are not safe: a pickle can set the state of a ``numpy.dtype`` so that bytes of the file
are taken for object pointers. Each stand-in only takes built-in number types, checks every size
against the available bytes, and only accepts the state that numpy writes.
"""

import io
import math
import pickle
import pickletools
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.text import reason

STATISTICS = ('min', 'max', 'current', 'mean')  # of a log history
MAX_PATHS = 10_000  # through a tuple of tuples; those of a checkpoint have a few
NUMBERS = ('b1', 'i1', 'u1', 'i2', 'u2', 'i4', 'u4', 'i8', 'u8', 'f2', 'f4', 'f8')


class Dtype:
    """``numpy.dtype`` of a built-in number in native byte order."""

    __slots__ = ('value',)

    def __init__(self, name: str, align: bool = False, copy: bool = False) -> None:
        if name not in NUMBERS:
            raise pickle.UnpicklingError(f'it asks for the numpy type {name!r:.80}')
        self.value = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        # what numpy writes of a plain number: version, byte order, and no structure
        if state != (3, self.value.str[0], None, None, None, -1, -1, 0):
            raise pickle.UnpicklingError('it sets the state of a numpy type')


class Array(np.ndarray):
    """``numpy.ndarray`` of built-in numbers; it is saved as a plain array."""

    def __new__(cls) -> 'Array':
        return super().__new__(cls, (0,), np.uint8)

    def __setstate__(self, state: Any) -> None:
        version, shape, dtype, is_fortran, content = state
        check_size(shape, dtype, content)
        super().__setstate__((version, shape, dtype.value, bool(is_fortran), content))

    def __reduce_ex__(self, protocol: int) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


class Function:
    """A function that a pickle may call; unlike a plain one, it has no state that can be set."""

    __slots__ = ('call',)

    def __init__(self, call: Callable) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError('it changes a function')


def check_size(shape: Any, dtype: Any, content: Any) -> None:
    """Reject an array whose bytes do not fit its shape and type exactly."""
    is_plain = isinstance(dtype, Dtype) and isinstance(content, bytes | bytearray)
    sides = shape if isinstance(shape, tuple) else ()
    if not is_plain or any(type(side) is not int or side < 0 for side in sides):
        raise pickle.UnpicklingError('it holds an array of other objects than numbers')
    if math.prod(sides) * dtype.value.itemsize != len(content):
        raise pickle.UnpicklingError(f'it holds an array of {shape!s:.80} in {len(content)} bytes')


def scalar(dtype: Any, content: Any) -> np.generic:
    check_size((), dtype, content)
    return np.frombuffer(content, dtype.value)[0]


def from_buffer(content: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    check_size(shape, dtype, content)
    return np.frombuffer(bytes(content), dtype.value).reshape(shape, order=order).copy()


def encode(text: str, encoding: str) -> bytes:
    """Bytes, as pickles of protocol 2 spell them."""
    if encoding != 'latin1':
        raise pickle.UnpicklingError(f'it encodes with {encoding!r:.80}')
    return text.encode('latin1')


def statistic_of(owner: Any, name: str) -> Callable:
    """``getattr``: only the statistics of a log history."""
    from mmengine.logging import HistoryBuffer

    if owner is not HistoryBuffer or name not in STATISTICS:
        raise pickle.UnpicklingError(f'it reaches for {name!r:.80} of {owner!r:.80}')
    return getattr(HistoryBuffer, name)


# numpy 1 and 2 name their modules differently
VALUES: dict[str, Any] = {
    '_codecs.encode': Function(encode),
    'numpy.ndarray': Array,
    'numpy.dtype': Dtype,
    **{
        f'numpy.{core}.{name}': Function(call)
        for core in ('core', '_core')
        for name, call in (
            ('multiarray._reconstruct', lambda *_: Array()),
            ('multiarray.scalar', scalar),
            ('numeric._frombuffer', from_buffer),
        )
    },
}


def allowed() -> torch.serialization.safe_globals:
    """While this context lasts, ``torch.load(..., weights_only=True)`` accepts these, too."""
    from mmengine.logging import HistoryBuffer  # reading a file is what needs mmengine first

    known = {
        **VALUES,
        'builtins.getattr': Function(statistic_of),
        '__builtin__.getattr': Function(statistic_of),
        'mmengine.logging.history_buffer.HistoryBuffer': HistoryBuffer,
        'argparse.Namespace': Namespace,  # the options of timm's and similar trainers
    }
    return torch.serialization.safe_globals([(value, name) for name, value in known.items()])


def check_pickle(file: IO[bytes], count: int = 1) -> None:
    """Reject a pickle that would take endless time or memory, without calling anything in it.

    60 nested pairs of the same object have 2**60 leaves, and hashing them, as the key of a dict,
    would visit each. An object that is stored under a large number needs a list of that length.
    There may be several pickles, one after the other.
    """
    for _ in range(count):
        stack: list[int | None] = []  # number of paths through every value; None is a mark
        memo: dict[int, int | None] = {}
        for opcode, argument, position in pickletools.genops(file):
            name = opcode.name
            if name.endswith('PUT') or name == 'MEMOIZE':
                place = len(memo) if argument is None else int(argument)
                if place > position:  # a list as long as this would be made
                    raise pickle.UnpicklingError('it stores more objects than it has bytes')
                memo[place] = stack[-1]
            elif name.endswith('GET'):
                stack.append(memo[int(argument)])
            elif name == 'MARK':
                stack.append(None)
            elif name == 'DUP':
                stack.append(stack[-1])
            else:
                taken = _take(stack, opcode.stack_before)
                paths = 1 + sum(taken) if 'TUPLE' in name else 1
                if paths > MAX_PATHS:
                    raise pickle.UnpicklingError('it holds tuples that share their parts')
                stack += [paths] * len(opcode.stack_after)


def _take(stack: list[int | None], wanted: list[pickletools.StackObject]) -> list[int]:
    """Pop from a stack what an opcode pops, which may be everything above the mark."""
    taken = []
    for kind in reversed(wanted):
        if kind is pickletools.stackslice:
            while stack[-1] is not None:
                taken.append(stack.pop())
        else:
            taken.append(stack.pop() or 0)
    return taken


def load_storage(content: bytes) -> Any:
    """The storage of a tensor; torch's own function would unpickle anything."""
    try:
        return torch.load(io.BytesIO(content), map_location='cpu', weights_only=True)
    except Exception as error:  # hostile bytes can raise anything
        raise pickle.UnpicklingError('it holds a damaged tensor') from error


def rebuild_tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> Tensor:
    """A tensor inside a storage; gradients and hooks are left out."""
    untyped = storage if isinstance(storage, torch.UntypedStorage) else storage._untyped_storage
    count = untyped.nbytes() // storage.dtype.itemsize
    last = offset + sum((side - 1) * step for side, step in zip(size, stride, strict=True))
    if 0 not in size and (min((offset, *size, *stride)) < 0 or last >= count):
        # `set_` alone would enlarge the storage
        raise pickle.UnpicklingError(f'it holds a tensor of {size!s:.80} in {count} numbers')
    return torch.empty(0, dtype=storage.dtype).set_(untyped, offset, size, stride)


class SafeUnpickler(pickle.Unpickler):
    """Reads tensors, arrays and plain values; everything else is rejected."""

    KNOWN = {
        **VALUES,
        'torch.storage._load_from_bytes': Function(load_storage),
        'torch._utils._rebuild_tensor_v2': Function(rebuild_tensor),
        'collections.OrderedDict': OrderedDict,
    }

    def find_class(self, module: str, name: str) -> Any:
        if f'{module}.{name}' not in self.KNOWN:
            raise pickle.UnpicklingError(f'it asks for {module}.{name}')
        return self.KNOWN[f'{module}.{name}']


def read_pickle(path: str | Path) -> Any:
    """Read the predictions of ``mmeffvit test --out`` without running code of the file.

    Raises:
        UserError: If the file is missing or damaged, or has more than tensors, arrays and values.
    """
    content = read_file(path)
    try:
        check_pickle(io.BytesIO(content))
        return SafeUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # hostile bytes can raise anything
        cause = reason(error).removeprefix('UnpicklingError: ')
        raise UserError(
            f'{path} is rejected: {cause}; write it with `mmeffvit test --out`'
        ) from error
