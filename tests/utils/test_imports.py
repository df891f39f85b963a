"""What ``import mmeffvit`` sets up: a callback of another import, and a missing function."""

import importlib
import pkgutil
import sys

import pytest
from mmengine.utils.dl_utils.misc import mmcv_full_available

from mmeffvit.utils.imports import restore_find_loader, when_imported


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a package that can be imported, and the calls that it sees."""
    name = 'imported_later'
    (tmp_path / f'{name}.py').write_text('ready = True\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, 'meta_path', list(sys.meta_path))
    yield name
    sys.modules.pop(name, None)


def test_the_function_is_called_once_and_after_the_import(package):
    seen = []
    when_imported(package, lambda: seen.append(sys.modules[package].ready))
    assert seen == []
    module = importlib.import_module(package)
    assert seen == [True]
    assert type(module.__loader__).__module__ == '_frozen_importlib_external'
    importlib.reload(module)
    assert seen == [True]
    when_imported(package, lambda: seen.append('at once'))
    assert seen == [True, 'at once']


def test_an_import_that_failed_is_tried_again(package, tmp_path):
    path = tmp_path / f'{package}.py'
    path.write_text('raise ImportError("broken")')
    seen = []
    when_imported(package, lambda: seen.append(package))
    with pytest.raises(ImportError, match='broken'):
        importlib.import_module(package)
    assert seen == []
    path.write_text('ready = "at the second attempt"\n')
    importlib.import_module(package)
    assert seen == [package]


def test_a_package_that_is_not_installed_is_still_not_found():
    before = list(sys.meta_path)
    when_imported('not_installed_at_all', lambda: None)
    with pytest.raises(ModuleNotFoundError, match='not_installed_at_all'):
        importlib.import_module('not_installed_at_all')
    sys.meta_path[:] = before


def test_mmengine_finds_operators_of_mmcv_without_find_loader(monkeypatch):
    monkeypatch.delattr(pkgutil, 'find_loader', raising=False)
    restore_find_loader()
    assert mmcv_full_available()
    assert pkgutil.find_loader('mmcv._no_such_module') is None
    monkeypatch.undo()


def test_find_loader_of_python_is_kept(monkeypatch):
    own = object()
    monkeypatch.setattr(pkgutil, 'find_loader', own, raising=False)
    restore_find_loader()
    assert pkgutil.find_loader is own
