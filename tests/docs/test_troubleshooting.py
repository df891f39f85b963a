"""Every message on the page of troubleshooting is one that this package prints."""

import ast
import re
from functools import cache

import pytest

from tests.conftest import ROOT

PAGE = ROOT / 'docs' / 'troubleshooting.md'
# of Python, torch, mmengine and others
FOREIGN = (
    'No module named', 'undefined symbol', 'mmcv/_ext', 'operator torchvision::nms', 'MMCV==',
    'MMEngine==', 'libGL.so.1', "'regex'", 'Illegal instruction', 'KeyError:', 'TransposedFPN',
    'SSDLiteHead', 'SlimPSPHead', 'Weights only load failed', 'Expected more than 1 value',
    'SyncBatchNorm expected', 'NoneType takes',
)  # fmt: skip


def messages() -> list[str]:
    cells = re.findall(r'^\| (`.*?) \|', PAGE.read_text(), re.MULTILINE)
    found = [code for cell in cells for code in re.findall(r'(?<!`)`([^`]+)`(?!`)', cell)]
    found += re.findall(r'``(.*?)``', PAGE.read_text())
    return [message for message in found if not message.startswith(FOREIGN)]


@cache
def literals() -> str:
    """All texts of the code; values in them are empty."""
    texts = []
    for folder in ('mmeffvit', 'tools'):
        for path in sorted((ROOT / folder).rglob('*.py')):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (p.value if isinstance(p, ast.Constant) else '' for p in node.values)
                    texts.append(''.join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return '\n'.join(texts)


# values that the code fills in
VALUES = re.compile(
    r"mm(?:det|seg)(?= is not)|onnx|None(?= in)|'slide'|train(?= data)|--amp|in_channels(?==)|hf://\\S*"
)


@pytest.mark.parametrize('message', messages())
def test_a_message_is_in_the_code(message):
    parts = re.split(r'\.\.\.|[:,;]', VALUES.sub('...', message))
    parts = [part.strip(' (') for part in parts]
    assert [part for part in parts if len(part) > 8 and part not in literals()] == []
