"""docs/results.md is true to the configs."""

import re

import pytest

from mmeffvit.suite.published import read_published
from tests.configs.leaves import LEAVES, build_empty, count
from tests.conftest import ROOT

ROW = re.compile(r'^\| \[(\w+)\]\(\.\./configs/\1\.py\) \|(.*)\|$', re.MULTILINE)
# cells by config: model, schedule, parameters, multiply-adds, paper, ours
ROWS = {
    leaf: [cell.strip() for cell in cells.split('|')]
    for leaf, cells in ROW.findall((ROOT / 'docs' / 'results.md').read_text())
}


def test_every_config_but_the_demonstration_has_a_row():
    assert sorted(ROWS) == [leaf for leaf in LEAVES if not leaf.endswith('_shapes')]


@pytest.mark.parametrize('leaf', ROWS)
def test_a_row_has_the_published_numbers_of_its_config_and_none_of_ours(leaf):
    *_, paper, ours = ROWS[leaf]
    published = read_published(ROOT / 'configs' / f'{leaf}.py').metrics
    assert [float(number) for number in re.findall(r'[\d.]+', paper)] == list(published.values())
    assert ours == ''


@pytest.mark.parametrize('leaf', [leaf for leaf in ROWS if leaf.endswith(('xs', 's4', '050'))])
def test_the_parameters_of_a_row_are_those_of_the_model(leaf):
    assert ROWS[leaf][2] == f'{count(build_empty(leaf)) / 1e6:.2f} M'
