"""mmengine works where Python lacks what it asks for."""

import pkgutil

from mmengine.utils.dl_utils.misc import mmcv_full_available

from mmeffvit.utils.newer_python import restore_find_loader


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
