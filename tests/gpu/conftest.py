"""Devices to run the same tests on: the stand-in everywhere, and a GPU where there is one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from mmengine.structures import instance_data

from mmeffvit.models.operators import backend
from tests.gpu.stand_in import StandInTensor, stand_in

Device = Callable[[], AbstractContextManager[torch.device]]

CUDA = pytest.param('cuda', marks=pytest.mark.gpu)


@pytest.fixture(params=['stand-in', CUDA])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Device:
    """A block in which tensors can be on the device."""
    if request.param == 'cuda':
        monkeypatch.setattr(torch.backends.cudnn, 'allow_tf32', False)  # 10 bits of 23
        return lambda: nullcontext(torch.device('cuda'))
    monkeypatch.setattr(backend, 'devices', tuple)  # torchvision's operators are not for it
    kinds = instance_data.IndexType | StandInTensor  # it asks for tensors of a CPU or of CUDA
    monkeypatch.setattr(instance_data, 'IndexType', kinds)
    return stand_in
