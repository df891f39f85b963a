"""What training may start from."""

from pathlib import Path

import pytest
from torch import nn

from mmeffvit.checkpoints import Checkpoint
from mmeffvit.engine.train import check_weights
from mmeffvit.errors import CheckpointError


def weights_of(model: nn.Module) -> Checkpoint:
    return Checkpoint('old.pth', Path('old.pth'), model.state_dict())


def test_weights_of_another_model_are_rejected():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    with pytest.raises(CheckpointError, match=r"old\.pth has none of .* keys are 'weight', 'bias'"):
        check_weights(weights_of(nn.Linear(2, 3)), model.state_dict())


def test_weights_that_fit_in_part_are_counted(log):
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5))
    check_weights(weights_of(model), model.state_dict())
    assert not log.text
    check_weights(weights_of(other), model.state_dict())
    assert 'old.pth: 2 of 4 tensors of the model are loaded, the others are' in log.text
