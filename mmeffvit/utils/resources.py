"""Where configs and tools are: next to the package in a checkout, inside it when installed."""

from pathlib import Path


def resource_dir(name: str) -> Path:
    """Return the folder of the configs or of the tools.

    Args:
        name: 'configs' or 'tools'.

    Raises:
        FileNotFoundError: If the package was installed without them.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / '.mim' / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f'no {name} next to or inside {package}: install mmeffvit with pip')
