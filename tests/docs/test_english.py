"""Habits that readers stumbled on stay away from the pages, and from help texts and messages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmeffvit.cli.main import COMMANDS, import_command
from tests.conftest import ROOT

PAGES = [
    ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', ROOT / 'SECURITY.md',
    *sorted((ROOT / 'docs').rglob('*.md')),
]  # fmt: skip
HABIT = re.compile(r'\b(?:those|that) of\b|\bsame as (?:for|in)\b|\bas in\b|\bas for\b', re.I)
VAGUE = {'of', 'by', 'for', 'from', 'to', 'with', 'because'}  # as the name of a column


def prose(page: Path) -> str:
    return re.sub(r'^ *```.*?^ *```', '', page.read_text(), flags=re.DOTALL | re.MULTILINE)


def columns(text: str) -> Iterator[str]:
    for heading in re.findall(r'^(\|.*\|)\n\| ?-', text, re.MULTILINE):
        yield from (cell.strip() for cell in heading.strip('|').split('|'))


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_compares_without_those_of_and_as_in(page):
    assert HABIT.findall(' '.join(prose(page).split())) == []


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_column_has_a_noun_and_no_paragraph_opens_with_an_option(page):
    text = prose(page)
    assert VAGUE.isdisjoint(columns(text))
    assert re.findall(r'\n\n(`--.*)', text) == []


@pytest.mark.parametrize('name', COMMANDS)
def test_a_help_text_compares_without_those_of(name):
    assert HABIT.findall(import_command(name).make_parser().format_help()) == []
