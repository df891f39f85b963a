"""Extract the code and the commands of a page, and run them."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_script

TUTORIALS = ROOT / 'docs' / 'tutorials'


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf'^```{language}\n(.*?)^```$', page.read_text(), re.DOTALL | re.MULTILINE)


def lines_of_code(config: str) -> int:
    return sum(bool(line.strip()) for line in config.splitlines())


def tool_commands(page: Path) -> list[list[str]]:
    """The arguments of all commands of a page that are ours, starting with what is run.

    That is a tool, as 'tools/train.py', or a command of `mmeffvit`, as 'mmeffvit train'.
    """
    text = '\n'.join(code_blocks(page, 'bash')).replace('\\\n', ' ')
    found = re.findall(r'^\.venv/bin/(?:python (tools/.*)|(mmeffvit .*))$', text, re.MULTILINE)
    split = [shlex.split(tool or command) for tool, command in found]
    return [[' '.join(w[:2]), *w[2:]] if w[0] == 'mmeffvit' else w for w in split]


class Workplace:
    """A folder as the pages assume it: configs, tools, a custom config and data."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ('configs', 'tools'):
            (folder / name).symlink_to(ROOT / name)
        (folder / 'mine').mkdir()
        self.folder = folder
        monkeypatch.chdir(folder)
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
        name, *arguments = command
        own = name.removeprefix('mmeffvit ')
        script = [name] if own == name else [str(ROOT / 'mmeffvit' / '__main__.py'), own]
        code = run_script([*script, *arguments])
        assert code == 0, f'{shlex.join(command)} ended with code {code}'
