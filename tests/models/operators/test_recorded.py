"""The operators return what a compiled mmcv returned."""

import json

import pytest

from tests.models.operators.cases import CASES, RECORDED, assert_recorded


@pytest.mark.parametrize('name', CASES)
def test_results_and_gradients_are_those_of_a_compiled_mmcv(name, implementation):
    assert_recorded(CASES[name](), name)


def test_every_recorded_case_is_tested():
    assert set(json.loads(RECORDED.read_text())) == set(CASES)
