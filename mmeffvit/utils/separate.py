"""Packages that the setup installs into folders of their own, and torchvision for any torch."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_schemas: list[Any] = []  # kept alive, since schemas are removed with their library


def separate(folder: str, package: str) -> Path:
    """The place of ``package`` in a folder of .venv."""
    return Path(sys.prefix, folder, package)


def reach(package: str, folder: str) -> bool:
    """Let ``package`` be imported from ``folder`` in .venv, unless it is installed.

    Returns:
        Whether the folder is among those that packages are imported from.
    """
    path = separate(folder, package)
    if find_spec(package) is None and path.is_dir():
        sys.path.append(str(path.parent))
    return str(path.parent) in sys.path


def import_torchvision() -> None:
    """Import a torchvision that may be built for another torch.

    Its operators do not load then; the import only needs their schemas. Where they load, as with
    torch's CUDA build, schemas of the same names would end the process.
    """
    try:
        import_module('torchvision')
    except ModuleNotFoundError:
        raise
    except (RuntimeError, ImportError):
        import torch  # files that were exported run without it

        library = torch.library.Library('torchvision', 'DEF')
        for name in ('nms', 'qnms'):
            library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
        _schemas.append(library)
        for name in [name for name in sys.modules if name.partition('.')[0] == 'torchvision']:
            del sys.modules[name]
        import_module('torchvision')


def import_mmpretrain_needs() -> None:
    """Let mmpretrain be imported: the setup keeps it, torchvision and timm apart.

    mmdet imports it, and with it torchvision, as soon as it can be found: torchvision goes first.
    """
    if find_spec('mmpretrain') is not None or separate('classification', 'mmpretrain').is_dir():
        reach('timm', 'parity')
        import_torchvision()
        reach('mmpretrain', 'classification')
