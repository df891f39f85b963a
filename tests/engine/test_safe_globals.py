"""Checkpoints of mmengine's runner load with ``weights_only=True``, and nothing else does."""

import os
import pickle

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmeffvit.checkpoints import CheckpointError
from mmeffvit.checkpoints.read import load_torch_file
from mmeffvit.engine.safe_globals import statistic_of


def test_a_log_history_comes_back_whole(tmp_path):
    history = HistoryBuffer()
    for value in (3.0, 1.0, 2.0):
        history.update(value)
    numbers = {'score': np.float64(0.5), 'epoch': np.int64(3), 'table': np.ones((2, 2), np.float32)}
    torch.save({'message_hub': {'loss': history}, **numbers}, tmp_path / 'epoch_1.pth')
    content = torch.load(tmp_path / 'epoch_1.pth', weights_only=True)
    loaded = content['message_hub']['loss']
    assert [loaded.min(), loaded.max(), loaded.current()] == [1.0, 3.0, 2.0]
    assert loaded.statistics('mean') == 2.0
    assert content['score'] == 0.5
    assert content['table'].tolist() == [[1, 1], [1, 1]]


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
    with pytest.raises(CheckpointError, match=r'reach\.pth is refused.*__init__'):
        load_torch_file(tmp_path / 'reach.pth')


class Foreign:
    pass


def test_any_other_class_is_refused_by_name(tmp_path):
    torch.save({'message_hub': Foreign()}, tmp_path / 'epoch_1.pth')
    with pytest.raises(CheckpointError, match=r'test_safe_globals\.Foreign'):
        load_torch_file(tmp_path / 'epoch_1.pth')
