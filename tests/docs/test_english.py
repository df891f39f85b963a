"""Habits that readers stumbled on stay away from pages, help texts, docstrings and messages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mmeffvit.cli.main import COMMANDS, import_command
from tests.conftest import ROOT
from tests.variants import check_all

PAGES = [
    ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', ROOT / 'SECURITY.md',
    *sorted((ROOT / 'docs').rglob('*.md')),
]  # fmt: skip
HABIT = re.compile(r'\b(?:those|that) of\b|\bsame as (?:for|in)\b|\bas in\b|\bas for\b', re.I)
SOURCES = [
    path
    for folder in ('mmeffvit', 'tools', 'configs')
    for path in sorted((ROOT / folder).rglob('*.py'))
]
VAGUE = {'of', 'by', 'for', 'from', 'to', 'with', 'because'}  # as the name of a column


def prose(page: Path) -> str:
    return re.sub(r'^ *```.*?^ *```', '', page.read_text(), flags=re.DOTALL | re.MULTILINE)


def columns(text: str) -> Iterator[str]:
    for heading in re.findall(r'^(\|.*\|)\n\| ?-', text, re.MULTILINE):
        yield from (cell.strip() for cell in heading.strip('|').split('|'))


def check_page(page: Path) -> None:
    text = prose(page)
    assert HABIT.findall(' '.join(text.split())) == []
    assert VAGUE.isdisjoint(columns(text))
    assert re.findall(r'\n\n(`--.*)', text) == []


def test_pages_compare_without_those_of_and_their_columns_have_nouns():
    check_all(PAGES, check_page)


def check_help(name: str) -> None:
    assert HABIT.findall(import_command(name).make_parser().format_help()) == []


def test_help_texts_compare_without_those_of():
    check_all(COMMANDS, check_help)


def check_strings(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert HABIT.findall(' '.join(node.value.split())) == [], node.value


def test_docstrings_and_messages_compare_without_those_of():
    check_all(SOURCES, check_strings)
