"""What training may start from, and be fed."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import DATASETS
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample
from torch import nn

from mmeffvit.config.build import isolated
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints import Checkpoint
from mmeffvit.train.engine.options import use_mixed_precision
from mmeffvit.train.engine.train import check_weights
from mmeffvit.train.engine.user_errors import check_label_map, name_unreadable
from tests.train.checks.test_data import map_config
from tests.utils.odd_images import EPS


def weights_of(model: nn.Module) -> Checkpoint:
    return Checkpoint('old.pth', Path('old.pth'), model.state_dict())


def test_weights_that_fit_in_part_are_counted(log):
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5))
    check_weights(weights_of(model), model.state_dict())
    assert not log.text
    check_weights(weights_of(other), model.state_dict())
    assert 'old.pth: 2 of 4 tensors of the model are loaded, the others are' in log.text


def test_counters_alone_are_no_weights_of_a_model():
    model, other = (nn.Sequential(nn.BatchNorm2d(width)) for width in (2, 3))
    with pytest.raises(CheckpointError, match='none of the tensors of the model'):
        check_weights(weights_of(other), model.state_dict())


def test_a_label_map_in_color_is_named():
    sample = SegDataSample(gt_sem_seg=PixelData(data=torch.zeros(4, 5, 3)))
    with pytest.raises(UserError, match=r'^a\.png has several channels'):
        check_label_map(dict(data_samples=sample), dict(seg_map_path='a.png'))


@pytest.mark.parametrize(('content', 'reason'), [(b'', 'damaged'), (EPS, r'PostScript \(EPS\)')])
def test_a_label_map_that_cannot_be_read_is_named(content, reason, tmp_path):
    config = map_config(tmp_path)
    with isolated('mmseg'):
        dataset = DATASETS.build(config.train_dataloader.dataset)
    name_unreadable(dataset)
    Path(dataset.get_data_info(0)['seg_map_path']).write_bytes(content)
    with pytest.raises(UserError, match=rf'masks/\d\.png or its annotation .*{reason}'):
        dataset.prepare_data(0)


def test_mixed_precision_takes_a_wrapper_by_name_or_class(monkeypatch):
    monkeypatch.setattr('mmeffvit.train.engine.options.get_device', lambda: 'cuda')
    for kind in ('OptimWrapper', OptimWrapper, 'AmpOptimWrapper'):
        config = Config(dict(optim_wrapper=dict(type=kind)))
        use_mixed_precision(config)
        assert config.optim_wrapper.type == 'AmpOptimWrapper'
