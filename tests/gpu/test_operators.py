"""The operators return on every device what a compiled mmcv returned on the CPU."""

import json
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from mmeffvit.models.operators import backend, functions
from tests.gpu.conftest import Device
from tests.models.operators import cases
from tests.models.operators.conftest import MODULES

COMPILED = json.loads(cases.RECORDED.read_text())


@pytest.mark.parametrize('name', cases.CASES)
def test_an_operator_is_that_of_a_compiled_mmcv(name, device: Device, monkeypatch):
    for module in MODULES:
        monkeypatch.setattr(sys.modules[f'mmcv.ops.{module}'], 'ext_module', functions)
    make = {inputs: getattr(cases, inputs) for inputs in ('wave', 'regions')}
    with device() as place:
        for inputs, function in make.items():
            monkeypatch.setattr(cases, inputs, partial(move, function, place))
        check(name)
        monkeypatch.setattr(backend, 'devices', tuple)  # in plain PyTorch
        check(name)


def move(function: Callable[..., Tensor], place: torch.device, *sizes: int, **options) -> Tensor:
    return function(*sizes, **options).to(place)


def check(name: str) -> None:
    results = [torch.as_tensor(result).cpu() for result in cases.CASES[name]()]
    assert len(results) == len(COMPILED[name])
    for result, recorded in zip(results, COMPILED[name], strict=True):
        expected = torch.tensor(recorded, dtype=result.dtype)
        torch.testing.assert_close(result.flatten(), expected, atol=2e-5, rtol=2e-5)
