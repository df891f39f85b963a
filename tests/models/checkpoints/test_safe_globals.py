"""Checkpoints of mmengine's runner load; `tests/hostile` has pickles that must not."""

import argparse
import pickle
import zipfile

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmeffvit.errors import CheckpointError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.models.checkpoints.safe_globals import read_pickle


def test_a_log_history_comes_back_whole(tmp_path):
    history = HistoryBuffer()
    for value in (3.0, 1.0, 2.0):
        history.update(value)
    numbers = {'score': np.float64(0.5), 'epoch': np.int64(3), 'table': np.ones((2, 2), np.float32)}
    numbers['args'] = argparse.Namespace(lr=0.1)  # of timm's and similar trainers
    torch.save({'message_hub': {'loss': history}, **numbers}, tmp_path / 'epoch_1.pth')
    content = read_content(tmp_path / 'epoch_1.pth')
    assert content['args'].lr == 0.1
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


@pytest.mark.parametrize('name', ['a' * 9000, 'a.' * 4500], ids=['long', 'dotted'])
def test_the_name_of_a_foreign_class_is_shortened_in_the_message(name, tmp_path):
    with zipfile.ZipFile(tmp_path / 'new.pth', 'w') as archive:
        archive.writestr('new/data.pkl', b'\x80\x02c' + name.encode() + b'\nmake\n.')
        archive.writestr('new/version', '3\n')
    with pytest.raises(CheckpointError) as raised:
        read_content(tmp_path / 'new.pth')
    assert f' {name[:20]}' in str(raised.value)
    assert len(str(raised.value)) < 1000
