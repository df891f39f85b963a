"""Extract the code and the commands of a page, and run them."""

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_script

TUTORIALS = ROOT / 'docs' / 'tutorials'


def code_blocks(page: Path, language: str, *, indented: bool = False) -> list[str]:
    """The blocks of a language; ``indented`` adds those inside lists."""
    indent = ' *' if indented else ''
    block = rf'^{indent}```{language}\n(.*?)^{indent}```$'
    return re.findall(block, page.read_text(), re.DOTALL | re.MULTILINE)


def lines_of_code(config: str) -> int:
    return sum(bool(line.strip()) for line in config.splitlines())


def page_commands(page: Path) -> list[list[str]]:
    """The commands of `mmeffvit` on a page with their arguments, without the program's name."""
    text = '\n'.join(code_blocks(page, 'bash')).replace('\\\n', ' ')
    found = re.findall(r'^mmeffvit (.*)$', text, re.MULTILINE)
    return [shlex.split(command, comments=True) for command in found]


def form_of(line: str) -> str:
    """A line of output without its numbers, their plurals and the spaces that align it."""
    line = re.sub(r'\d[\d,.]*(e-?\d+)?', '0', line)
    return re.sub(r'\b(0 [a-z]+?)s\b', r'\1', ' '.join(line.split()))


class Workplace:
    """A folder as the pages assume it: configs, a custom config and data."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / 'configs').symlink_to(ROOT / 'configs')
        (folder / 'mine').mkdir()
        self.folder = folder
        monkeypatch.chdir(folder)
        monkeypatch.delenv('DATA_ROOT', raising=False)
        monkeypatch.delenv('MMEFFVIT_CONFIGS', raising=False)

    def run(self, command: list[str], options: tuple[str, ...] = ()) -> None:
        """Run a command of `mmeffvit` in this process, to save time.

        Args:
            command: The name of the command and its arguments.
            options: What the test adds to ``--cfg-options``.
        """
        if options:
            command = [*command, '--cfg-options', *options]
        code = run_script([str(ROOT / 'mmeffvit' / '__main__.py'), *command])
        assert code == 0, f'{shlex.join(command)} ended with code {code}'
