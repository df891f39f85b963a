"""Checkpoints of mmengine's runner load, and a pickle can neither run code nor touch memory."""

import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.models.checkpoints.safe_globals import read_pickle, statistic_of


def test_a_log_history_comes_back_whole(tmp_path):
    history = HistoryBuffer()
    for value in (3.0, 1.0, 2.0):
        history.update(value)
    numbers = {'score': np.float64(0.5), 'epoch': np.int64(3), 'table': np.ones((2, 2), np.float32)}
    torch.save({'message_hub': {'loss': history}, **numbers}, tmp_path / 'epoch_1.pth')
    content = read_content(tmp_path / 'epoch_1.pth')
    loaded = content['message_hub']['loss']
    assert [loaded.min(), loaded.max(), loaded.current()] == [1.0, 3.0, 2.0]
    assert loaded.statistics('mean') == 2.0
    assert content['score'] == 0.5
    assert content['table'].tolist() == [[1, 1], [1, 1]]


def test_what_was_loaded_is_saved_as_plain_numpy_again(tmp_path):
    torch.save({'table': np.arange(6.0).reshape(2, 3)}, tmp_path / 'a.pth')
    torch.save(read_content(tmp_path / 'a.pth'), tmp_path / 'b.pth')
    with zipfile.ZipFile(tmp_path / 'b.pth') as archive:
        assert b'mmeffvit' not in archive.read('b/data.pkl')
    np.testing.assert_array_equal(
        read_content(tmp_path / 'b.pth')['table'], np.arange(6.0).reshape(2, 3)
    )


class Reaching:
    """Pickles as a ``getattr`` that is not one of a log history's own."""

    def __reduce__(self):
        return getattr, (HistoryBuffer, '__init__')


def test_getattr_reaches_statistics_only(tmp_path):
    assert statistic_of(HistoryBuffer, 'mean') is HistoryBuffer.mean
    for owner, name in ((os, 'system'), (HistoryBuffer, '__init__'), (HistoryBuffer.min, 'min')):
        with pytest.raises(pickle.UnpicklingError, match=name):
            statistic_of(owner, name)
    torch.save({'model': Reaching()}, tmp_path / 'reach.pth')
    with pytest.raises(CheckpointError, match=r'reach\.pth is rejected.*__init__'):
        read_content(tmp_path / 'reach.pth')


class Foreign:
    pass


def test_any_other_class_is_rejected_by_name(tmp_path):
    torch.save({'message_hub': Foreign()}, tmp_path / 'epoch_1.pth')
    with pytest.raises(CheckpointError, match=r'test_safe_globals\.Foreign'):
        read_content(tmp_path / 'epoch_1.pth')


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
HOSTILE = {
    'state of a copied dtype': array(dtype('f8') + OBJECT_STATE, POINTERS, SIDES),
    'object dtype': array(dtype('O8'), POINTERS, SIDES),
    'more numbers than bytes': array(dtype('f8'), b'\0' * 8, b'(' + integer(10**9) + b't'),
    'negative side': array(dtype('f8'), b'\0' * 8, b'(' + integer(-1) + b't'),
    'object scalar': b'cnumpy._core.multiarray\nscalar\n(' + dtype('O8') + text('x') + b'tR',
    'short scalar': b'cnumpy.core.multiarray\nscalar\n(' + dtype('f8') + text('x') + b'tR',
    'array with a buffer': b'cnumpy\nndarray\n(' + SIDES + dtype('O8') + text('x') + b't\x81',
    'state of a class': b'cnumpy\nndarray\n}' + text('tobytes') + text('x') + b'sb',
    'state of a function': b'c_codecs\nencode\n}' + text('call') + text('x') + b'sb',
    'code': b'cos\nsystem\n(' + text('touch pwned') + b'tR',
}

LOADERS = """
import sys
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.models.checkpoints.safe_globals import read_pickle
from mmeffvit.errors import UserError
for path in sys.argv[1:]:
    try:
        print(repr((read_content if path.endswith('.pth') else read_pickle)(path)))
    except UserError as error:
        print('rejected', error)
"""


def test_hand_written_pickles_are_rejected_and_neither_crash_nor_run(tmp_path):
    """In a process of its own, which a wrong pointer would end."""
    files = []
    for name, body in HOSTILE.items():
        content = b'\x80\x02' + body + b'.'
        files += [tmp_path / f'{name}.pkl', tmp_path / f'{name}.pth']
        files[-2].write_bytes(content)
        with zipfile.ZipFile(files[-1], 'w') as archive:
            archive.writestr('a/data.pkl', content)
            archive.writestr('a/version', '3\n')
            archive.writestr('a/byteorder', 'little')
    run = subprocess.run(
        [sys.executable, '-c', LOADERS, *map(str, files)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = run.stdout.strip().splitlines()
    assert len(lines) == len(files), run.stdout
    for path, line in zip(files, lines, strict=True):
        assert line.startswith('rejected'), (path.name, line)
    assert not (tmp_path / 'pwned').exists()


def test_plain_arrays_in_the_same_spelling_load(tmp_path):
    state = b'(' + integer(3) + text('<') + b'NNN' + integer(-1) + integer(-1) + integer(0) + b'tb'
    body = array(dtype('f8') + state, np.arange(8.0).tobytes(), SIDES)
    (tmp_path / 'good.pkl').write_bytes(b'\x80\x02' + body + b'.')
    np.testing.assert_array_equal(read_pickle(tmp_path / 'good.pkl'), np.arange(8.0))


@pytest.mark.parametrize('protocol', [2, 4, 5])
def test_predictions_with_tensors_and_arrays_are_read(tmp_path, protocol):
    sample = {
        'img_id': 3,
        'scores': torch.tensor([0.5, 0.25]),
        'view': torch.arange(6.0).view(2, 3).t(),
        'masks': [{'size': [4, 4], 'counts': b'1234'}],
        'area': np.float32(2.5),
        'table': np.eye(2, dtype=np.uint8),
    }
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps([sample], protocol=protocol))
    (found,) = read_pickle(tmp_path / 'found.pkl')
    assert found['scores'].tolist() == [0.5, 0.25]
    assert torch.equal(found['view'], sample['view'])
    assert found['masks'] == sample['masks']
    assert found['area'] == 2.5
    assert found['table'].tolist() == [[1, 0], [0, 1]]


def test_tensors_reach_no_memory_beyond_their_storage(tmp_path):
    class Beyond:
        def __reduce__(self):
            storage = torch.zeros(2)._typed_storage()
            return torch._utils._rebuild_tensor_v2, (storage, 0, (1000,), (1,), False, {})

    (tmp_path / 'beyond.pkl').write_bytes(pickle.dumps([Beyond()], protocol=2))
    with pytest.raises(UserError, match=r'beyond\.pkl is rejected'):
        read_pickle(tmp_path / 'beyond.pkl')


def test_compressed_entries_are_rejected_before_they_are_inflated(tmp_path):
    with zipfile.ZipFile(tmp_path / 'bomb.pth', 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('a/data.pkl', b'\0' * 10**7)
    with pytest.raises(CheckpointError, match=r'bomb\.pth is rejected: its entries are compressed'):
        read_content(tmp_path / 'bomb.pth')


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_weights_that_training_lost_are_named(tmp_path, value):
    from mmeffvit.models.checkpoints.read import allow_non_finite

    torch.save({'state_dict': {'a': torch.ones(2), 'b': torch.tensor(value)}}, tmp_path / 'e.pth')
    with pytest.raises(CheckpointError, match=r'NaN or infinite values in 1 tensor: b\.'):
        read_content(tmp_path / 'e.pth')
    with allow_non_finite():
        assert 'b' in read_content(tmp_path / 'e.pth')['state_dict']
