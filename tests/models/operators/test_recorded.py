"""The operators return what a compiled mmcv returned."""

import json

import pytest
import torch

from tests.models.operators.cases import CASES, RECORDED

COMPILED = json.loads(RECORDED.read_text())


@pytest.mark.parametrize('name', CASES)
def test_results_and_gradients_are_those_of_a_compiled_mmcv(name, implementation):
    results = CASES[name]()
    assert len(results) == len(COMPILED[name])
    for result, recorded in zip(results, COMPILED[name], strict=True):
        expected = torch.tensor(recorded, dtype=result.dtype)
        torch.testing.assert_close(result.flatten(), expected, atol=1e-5, rtol=1e-5)


def test_every_recorded_case_is_tested():
    assert set(COMPILED) == set(CASES)
