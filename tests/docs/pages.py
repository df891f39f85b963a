"""The code and the commands of a page, and how a test runs them."""

import re
import runpy
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT

TUTORIALS = ROOT / 'docs' / 'tutorials'


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf'^```{language}\n(.*?)^```$', page.read_text(), re.DOTALL | re.MULTILINE)


def lines_of_code(config: str) -> int:
    return sum(bool(line.strip()) for line in config.splitlines())


def tool_commands(page: Path) -> list[list[str]]:
    """The arguments of every command of a page that starts one of our tools, the tool first."""
    text = '\n'.join(code_blocks(page, 'bash')).replace('\\\n', ' ')
    found = re.findall(r'^\.venv/bin/python (tools/.*)$', text, re.MULTILINE)
    return [shlex.split(command) for command in found]


class Workplace:
    """A folder that looks as the pages assume: configs, tools, a config of one's own, data."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ('configs', 'tools'):
            (folder / name).symlink_to(ROOT / name)
        (folder / 'mine').mkdir()
        self.folder = folder
        self.monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(ROOT / 'tools')  # as Python does for a script
        monkeypatch.delenv('DATA_ROOT', raising=False)
        monkeypatch.delenv('MMEFFVIT_CONFIGS', raising=False)

    def run(
        self,
        command: list[str],
        options: tuple[str, ...] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """Run the script of a tool with a command's arguments, in this process to save time.

        Args:
            command: The tool and its arguments.
            options: What the test adds to ``--cfg-options``.
            renamed: Parts of arguments that depend on the length of the training.
        """
        for old, new in (renamed or {}).items():
            command = [argument.replace(old, new) for argument in command]
        if options:
            command = [*command, '--cfg-options', *options]
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, 'argv', command)
            code = None
            try:
                runpy.run_path(command[0], run_name='__main__')
            except SystemExit as stop:
                code = stop.code
        assert not code, f'{shlex.join(command)} ended with code {code}'
