"""The page for users of other libraries: our calls on it run and its tables are complete."""

import ast
import re

import pytest

import mmeffvit
from tests.conftest import ROOT

PAGE = (ROOT / 'docs' / 'coming-from.md').read_text()
CODE = re.findall(r'`(mmeffvit[ .][^`]+)`', PAGE)
CALLS = sorted({code for code in CODE if code.startswith('mmeffvit.') and 'Predictor' not in code})


@pytest.mark.parametrize('call', [call for call in CALLS if 'pretrained' not in call])
def test_calls_of_the_page_run(call, tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save(mmeffvit.get_model('swiftformer_xs').state_dict(), 'xs.pth')
    assert eval(call, dict(mmeffvit=mmeffvit))


def test_every_row_has_two_columns_and_names_of_ours_exist():
    rows = [line for line in PAGE.splitlines() if line.startswith('| ')]
    assert len(rows) > 50
    for row in rows:
        assert len(re.split(r'(?<!\\)\|', row)) == 4, row
    for name in re.findall(r'--model (\w+)', PAGE):
        assert name in mmeffvit.list_models()
    for call in CALLS:
        node = ast.parse(call, mode='eval').body
        assert isinstance(node, ast.Call)
        assert hasattr(mmeffvit, node.func.attr)
