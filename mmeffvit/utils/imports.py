"""What ``import mmeffvit`` sets up: a callback of another import, and a missing function."""

import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(package: str, function: Callable[[], None]) -> None:
    """Call ``function`` once: now if ``package`` is imported, otherwise after its first import.

    It is a top-level package, which may not be installed.
    """
    if sys.modules.get(package) is not None:
        function()
    else:
        sys.meta_path.insert(0, _Finder(package, function))


class _Finder(MetaPathFinder):
    def __init__(self, package: str, function: Callable[[], None]) -> None:
        self.package, self.function = package, function

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.package:
            return None
        sys.meta_path.remove(self)  # the other finders answer
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(Loader):
    """Loads a package with its own loader, which the package keeps."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        sys.meta_path.remove(self.finder)
        self.finder.function()


def restore_find_loader() -> None:
    """Restore ``pkgutil.find_loader``, which Python 3.14 has removed.

    mmengine 0.10 and mmcv 2.1 ask by it whether mmcv has operators.
    """
    if not hasattr(pkgutil, 'find_loader'):
        pkgutil.find_loader = lambda name: getattr(find_spec(name), 'loader', None)
