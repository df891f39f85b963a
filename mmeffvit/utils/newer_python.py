"""Functions that OpenMMLab's packages need and newer Python and setuptools lack.

Python 3.14 has no ``pkgutil.find_loader``, by which mmengine 0.10 and mmcv 2.1 ask whether mmcv has
operators: :func:`restore_find_loader` restores it. setuptools 82 has no ``pkg_resources``, which
mmengine imports to read ``_base_ = 'mmdet::...'``: the extras of setup.py require an earlier one.
"""

import pkgutil
from importlib.abc import Loader
from importlib.util import find_spec


def restore_find_loader() -> None:
    """Restore ``pkgutil.find_loader`` where Python has removed it."""
    if not hasattr(pkgutil, 'find_loader'):
        pkgutil.find_loader = find_loader


def find_loader(name: str) -> Loader | None:
    """Return the loader of a module, or None if there is no such module."""
    spec = find_spec(name)
    return spec and spec.loader
