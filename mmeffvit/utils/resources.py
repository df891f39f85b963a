"""The folders of configs and tools: next to the package in a checkout, else inside it."""

import re
import shlex
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
HUB = "pip install 'mmeffvit[hub]'"


def resource_dir(name: str) -> Path:
    """Return the folder of the configs or of the tools.

    Args:
        name: 'configs' or 'tools'.

    Raises:
        FileNotFoundError: If the package was installed without them.
    """
    for folder in (PACKAGE / '.mim' / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f'no {name} next to or inside {PACKAGE}: install mmeffvit with pip')


def install_command(command: str) -> str:
    """A pip command for extras of this package, with the path of the checkout if this is one."""
    if not (PACKAGE.parent / 'setup.py').is_file():
        return command

    def local(match: re.Match) -> str:
        return f'-e {shlex.quote(f"{PACKAGE.parent}[{match[1]}]")}'

    return re.sub(r"'mmeffvit\[([\w,]+)\]'", local, command)
