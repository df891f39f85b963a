"""The setup keeps one mmcv wheel per Python, torch and mmcv, and reuses no other."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT


@pytest.fixture
def set_up(monkeypatch, tmp_path):
    path = ROOT / 'tools' / 'environment' / 'set_up.py'
    spec = importlib.util.spec_from_file_location('set_up', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    module.builds = []

    def build(target: Path, log: Path) -> None:
        module.builds.append(module.torch_version())
        target.mkdir()
        (target / 'mmcv-2.1.0-cp311-cp311-linux_x86_64.whl').write_text(module.torch_version())

    monkeypatch.setattr(module, 'build_mmcv', build)
    return module


def test_a_wheel_is_built_once_and_never_shared_between_torches(set_up, monkeypatch):
    for version in ('2.13.0+cpu', '2.13.0+cpu', '2.13.0+cu130', '2.12.0', '2.13.0+cpu'):
        monkeypatch.setattr(set_up, 'torch_version', lambda version=version: version)
        assert set_up.mmcv_wheel().read_text() == version
    assert set_up.builds == ['2.13.0+cpu', '2.13.0+cu130', '2.12.0']


def test_a_build_that_was_interrupted_is_not_used(set_up, monkeypatch, tmp_path):
    monkeypatch.setattr(set_up, 'torch_version', lambda: '2.13.0')
    good = set_up.build_mmcv

    def interrupted(target: Path, log: Path) -> None:
        good(target, log)
        raise KeyboardInterrupt

    monkeypatch.setattr(set_up, 'build_mmcv', interrupted)
    with pytest.raises(KeyboardInterrupt):
        set_up.mmcv_wheel()
    monkeypatch.setattr(set_up, 'build_mmcv', good)
    set_up.mmcv_wheel()
    assert len(set_up.builds) == 2


def test_the_stamp_changes_with_the_torch_in_the_environment(set_up, monkeypatch):
    stamps = set()
    for version in ('2.13.0+cpu', '2.12.0+cpu'):
        monkeypatch.setattr(set_up, 'torch_version', lambda version=version: version)
        stamps.add(set_up.fingerprint())
    assert len(stamps) == 2


def test_an_unsupported_python_is_reported_with_a_fix(set_up, monkeypatch):
    monkeypatch.setattr(set_up.sys, 'version_info', (3, 13, 0))
    with pytest.raises(set_up.SetUpError, match=r'PYTHON=python3\.11'):
        set_up.check_machine()


def test_progress_without_a_terminal_is_a_line_every_tenth(set_up, capsys):
    bar = set_up.ProgressBar()
    bar.live = False
    for done in range(1, 78):
        bar.show(done, 77)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    assert 'estimating' in lines[0]
    assert '77/77 files' in lines[-1]
    assert '0:00 left' in lines[-1]


def test_ruff_is_the_same_in_the_stack_and_before_a_commit():
    (stack,) = re.findall(
        r'^ruff==(.+)$', (ROOT / 'tools' / 'environment' / 'full.txt').read_text(), re.MULTILINE
    )
    hooks = yaml.safe_load((ROOT / '.pre-commit-config.yaml').read_text())['repos']
    (revision,) = [hook['rev'] for hook in hooks if hook['repo'].endswith('/ruff-pre-commit')]
    assert revision == f'v{stack}'


def test_an_environment_of_others_is_left_alone(set_up, monkeypatch, tmp_path):
    venv = tmp_path / 'venv'
    for name, path in (
        ('VENV', ''),
        ('PYTHON', 'bin/python'),
        ('STAMP', 'stack'),
        ('MARK', 'made'),
    ):
        monkeypatch.setattr(set_up, name, venv / path)
    venv.mkdir()
    (venv / 'notes').write_text('mine')
    with pytest.raises(set_up.SetUpError, match='was not made by this script'):
        set_up.create_venv()
    assert (venv / 'notes').read_text() == 'mine'
    shutil.rmtree(venv)
    monkeypatch.setattr(set_up, 'run', lambda *command: (venv / 'bin').mkdir())
    set_up.create_venv()
    assert (venv / 'made').is_file()
    set_up.create_venv()  # an incomplete one is recreated
    assert (venv / 'bin').is_dir()
