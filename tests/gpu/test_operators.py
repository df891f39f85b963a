"""The operators return on every device what a compiled mmcv returned on the CPU."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from mmeffvit.models.operators import backend
from tests.gpu.conftest import Device
from tests.models.operators import cases
from tests.models.operators.conftest import use_ours


@pytest.mark.parametrize('name', cases.CASES)
def test_an_operator_is_that_of_a_compiled_mmcv(name, device: Device, monkeypatch):
    use_ours(monkeypatch)
    make = {inputs: getattr(cases, inputs) for inputs in ('wave', 'regions')}
    with device() as place:
        for inputs, function in make.items():
            monkeypatch.setattr(cases, inputs, partial(move, function, place))
        cases.assert_recorded(cases.CASES[name](), name, 2e-5)
        monkeypatch.setattr(backend, 'devices', tuple)  # in plain PyTorch
        cases.assert_recorded(cases.CASES[name](), name, 2e-5)


def move(function: Callable[..., Tensor], place: torch.device, *sizes: int, **options) -> Tensor:
    return function(*sizes, **options).to(place)
