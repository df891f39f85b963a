"""Whatever bytes a checkpoint has, plain tensors and values come out, or an error in words."""

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mmengine.logging import HistoryBuffer
from safetensors.torch import save

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import open_checkpoint
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.models.checkpoints.safe_globals import read_pickle
from tests.hostile.pickles import FORMATS, PAYLOADS, zipped
from tests.models.checkpoints.test_safe_globals import HOSTILE, integer, text

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def history() -> HistoryBuffer:
    buffer = HistoryBuffer()
    buffer.update(0.5)
    return buffer


CONTENT = {
    'state_dict': OrderedDict(a=torch.arange(6.0).view(2, 3), b=torch.ones(2, dtype=torch.int64)),
    'meta': {'epoch': 1, 'seed': np.int64(3), 'classes': ('cat', 'dog'), 'none': None},
    'message_hub': {'loss': history(), 'table': np.eye(2, dtype=np.float32)},
}


def pickled() -> bytes:
    """The pickle inside a checkpoint."""
    buffer = io.BytesIO()
    torch.save(CONTENT, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return archive.read('archive/data.pkl')


PICKLE = pickled()
PREDICTIONS = pickle.dumps([{'img_id': 1, 'scores': torch.ones(2), 'n': np.float32(1)}], 2)
# pieces of pickles: single opcodes, arguments, and calls, in any order
PIECES = [
    *(bytes([code]) for code in b'(.0120NRabcdeijlost)}]u\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93'),
    *(b'h' + bytes([index]) for index in range(3)),
    *(b'q' + bytes([index]) for index in range(3)),
    b'K\x01', integer(-1), integer(2**31 - 1), b'G' + struct.pack('>d', 1e308), b'\x8a\x01\x7f',
    text(''), text('os'), text('system'), text('touch canary'), text('storage'), b'U\x01x',
    b'C\x01x', b'cos\nsystem\n', b'cnumpy\ndtype\n', b'cnumpy\nndarray\n',
    b'cnumpy._core.multiarray\n_reconstruct\n', b'cnumpy._core.multiarray\nscalar\n',
    b'c_codecs\nencode\n', b'cbuiltins\ngetattr\n', b'ccollections\nOrderedDict\n',
    b'cmmengine.logging.history_buffer\nHistoryBuffer\n', b'ctorch\nFloatStorage\n',
    b'ctorch._utils\n_rebuild_tensor_v2\n', b'ctorch\nSize\n', b'Q', b'\x80\x02', b'\x80\x05',
    *HOSTILE.values(), *PAYLOADS.values(),
]  # fmt: skip


@st.composite
def mutations(draw: st.DrawFn, source: bytes) -> bytes:
    """A pickle with up to four changes: bytes replaced, taken out, doubled, or pieces put in."""
    content = source
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.integers(0, 12))
        new = draw(st.one_of(st.binary(max_size=6), st.sampled_from(PIECES), st.just(
            content[start:end] * 2
        )))  # fmt: skip
        content = content[:start] + new + content[end:]
    return content


PROGRAMS = st.lists(st.sampled_from(PIECES), max_size=12).map(b''.join)
PLAIN = (int, float, complex, bool, str, bytes, bytearray, type(None), torch.dtype, np.generic)
CONTAINERS = (list, tuple, set, frozenset, torch.Size)


def check_plain(value: Any, seen: set[int]) -> None:
    """Nothing but tensors, numbers, texts, containers and log histories."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_plain(key, seen)
            check_plain(item, seen)
    elif isinstance(value, CONTAINERS):
        for item in value:
            check_plain(item, seen)
    elif isinstance(value, HistoryBuffer):
        check_plain(vars(value).get('_log_history'), seen)
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind in 'biufc'
        value.sum()
    elif isinstance(value, torch.Tensor):
        assert value.nbytes <= max(value.untyped_storage().nbytes(), 2**28)
    else:
        # a class or a stand-in that is named, and not called, is a name
        assert isinstance(value, PLAIN) or not hasattr(value, '__dict__') or callable(value), value


def outcome(read: Callable[[Path], Any], path: Path) -> Any:
    """What is read, or the error in words; any other passes."""
    try:
        return read(path)
    except UserError as error:
        return error


def is_rejected_or_plain(read: Callable[[Path], Any], path: Path) -> None:
    content = outcome(read, path)
    if isinstance(content, UserError):
        assert str(path) in str(content)
    else:
        check_plain(content, set())
    assert not (path.parent / 'canary').exists()
    assert not Path('canary').exists()


@SETTINGS
@given(body=st.one_of(mutations(PICKLE[2:-1]), PROGRAMS), form=st.sampled_from(list(FORMATS)))
@example(body=PICKLE[2:-1], form='zip')
def test_a_checkpoint_of_any_pickle_is_rejected_or_plain(body, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = {str(index): bytes(32) for index in range(2)}
    content = zipped(body, **numbers) if form == 'zip' else FORMATS[form](body)
    (tmp_path / 'a.pth').write_bytes(content)
    is_rejected_or_plain(read_content, tmp_path / 'a.pth')


@SETTINGS
@given(content=st.one_of(mutations(PREDICTIONS), PROGRAMS.map(lambda body: body + b'.')))
@example(content=PREDICTIONS)
def test_predictions_of_any_pickle_are_rejected_or_plain(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.pkl').write_bytes(content)
    is_rejected_or_plain(read_pickle, tmp_path / 'a.pkl')


LOOSE = save({'a': torch.arange(4.0), 'b': torch.ones(2, 2)})
LENGTH = struct.unpack('<Q', LOOSE[:8])[0]
HEADER = json.loads(LOOSE[8 : 8 + LENGTH])
NUMBERS = st.one_of(st.integers(-(2**65), 2**65), st.integers(-40, 40), st.floats())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5),
              st.sampled_from(['F32', 'F4', 'BOOL', 'C64', 'F8_E4M3', 'I64'])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)  # fmt: skip
FIELDS = st.dictionaries(st.sampled_from(['dtype', 'shape', 'data_offsets', 'more']), VALUES)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """The header with fields, entries or all of it replaced; some of its bytes, too."""
    header = {
        key: dict(entry, **draw(FIELDS)) if draw(st.booleans()) else entry
        for key, entry in HEADER.items()
    }
    header |= draw(st.dictionaries(st.sampled_from(['a', 'b', 'c', '__metadata__']), VALUES,
                                   max_size=1))  # fmt: skip
    written = json.dumps(draw(VALUES) if draw(st.integers(0, 9)) == 9 else header).encode()
    if draw(st.booleans()):
        start = draw(st.integers(0, len(written)))
        written = written[:start] + draw(st.binary(max_size=3)) + written[start + 1 :]
    return written


@SETTINGS
@given(
    header=headers(),
    length=st.one_of(st.none(), st.integers(0, 2**64 - 1)),
    rest=st.one_of(st.just(LOOSE[8 + LENGTH :]), st.binary(max_size=40)),
)
@example(header=LOOSE[8 : 8 + LENGTH], length=None, rest=LOOSE[8 + LENGTH :])
def test_safetensors_of_any_header_are_rejected_or_tensors(header, length, rest, tmp_path):
    path = tmp_path / 'a.safetensors'
    path.write_bytes(struct.pack('<Q', len(header) if length is None else length) + header + rest)
    weights = outcome(open_checkpoint, path)
    if isinstance(weights, UserError):
        assert str(path) in str(weights)
    else:
        assert all(isinstance(value, torch.Tensor) for value in weights.weights.values())
        assert sum(value.nbytes for value in weights.weights.values()) <= len(rest)


@pytest.mark.parametrize('form', FORMATS)
def test_what_is_good_is_read(form, tmp_path):
    """The tests above would pass if everything were rejected."""
    torch.save(CONTENT, tmp_path / 'a.pth', _use_new_zipfile_serialization=form == 'zip')
    content = read_content(tmp_path / 'a.pth')
    check_plain(content, set())
    assert torch.equal(content['state_dict']['a'], CONTENT['state_dict']['a'])
