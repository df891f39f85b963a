"""The setup takes torch and torchvision of one kind, and touches no environment of others."""

import importlib.util
import re
import sys
import zipfile

import pytest

from tests.conftest import ROOT


@pytest.fixture
def set_up(monkeypatch, tmp_path):
    """The script, with .venv in a temporary folder."""
    path = ROOT / 'tools' / 'environment' / 'set_up.py'
    spec = importlib.util.spec_from_file_location('set_up', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.use(tmp_path / '.venv')
    for name in ('TORCH', 'TORCH_INDEX'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.shutil, 'which', lambda name: None)  # pip, where uv is installed too
    return module


def test_an_unsupported_python_is_reported_with_a_fix(set_up, monkeypatch):
    monkeypatch.setattr(set_up.sys, 'version_info', (3, 9, 0))
    with pytest.raises(set_up.SetUpError, match=r'PYTHON=python3\.12'):
        set_up.check_machine()


@pytest.mark.variant
def test_torch_and_torchvision_of_one_kind_are_described(set_up, monkeypatch):
    pytest.importorskip('torchvision')
    monkeypatch.setattr(set_up, 'PYTHON', sys.executable)
    assert re.fullmatch(r'torch \S+ and torchvision \S+', set_up.check_pair())


@pytest.mark.variant
def test_torch_and_torchvision_of_two_kinds_are_reported_with_a_fix(set_up, monkeypatch, tmp_path):
    folder = tmp_path / 'torchvision'
    folder.mkdir()
    (folder / 'version.py').write_text("__version__ = '0.99.0+rocm99'\n")
    (folder / '__init__.py').write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.setattr(set_up, 'PYTHON', sys.executable)
    message = (
        r'^torch \S+ and torchvision 0\.99\.0\+rocm99 do not work together '
        r'\(RuntimeError: operator nms does not exist\): .*TORCH_INDEX=https.*TORCH=\S+$'
    )
    with pytest.raises(set_up.SetUpError, match=message):
        set_up.check_pair()


def test_a_build_is_taken_only_if_the_index_has_it(set_up, monkeypatch, tmp_path):
    with zipfile.ZipFile(tmp_path / 'torch-2.1+cpu-py3-none-any.whl', 'w') as wheel:
        info = 'torch-2.1+cpu.dist-info'
        wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\nName: torch\nVersion: 2.1+cpu\n')
        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nTag: py3-none-any\n')
        wheel.writestr(f'{info}/RECORD', '')
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(tmp_path))
    monkeypatch.setattr(set_up, 'PYTHON', sys.executable)
    assert set_up.is_offered('torch==2.1+cpu')
    assert not set_up.is_offered('torch==2.1+cpu', 'torchvision==0.99+cpu')


CPU = 'https://torch.example/cpu'


@pytest.mark.parametrize(
    ('environment', 'options', 'pins'),
    [
        ({}, [], None),
        ({'TORCH': '2.6.0'}, [], ['torch==2.6.0', 'torchvision']),
        ({'TORCH_INDEX': CPU}, ['--index-url', CPU], None),
    ],
)
def test_the_environment_chooses_index_and_version(set_up, monkeypatch, environment, options, pins):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    calls = []
    monkeypatch.setattr(set_up, 'install', lambda *given: calls.append(list(given)))
    monkeypatch.setattr(set_up, 'is_offered', lambda *pins: False)
    monkeypatch.setattr(set_up, 'check_pair', lambda: '')
    set_up.install_torch()
    assert calls == [[*options, *(pins or set_up.TORCH)]]


def test_an_environment_is_set_up_again_for_another_torch_or_list(set_up, monkeypatch):
    set_up.VENV.mkdir()
    set_up.write_stamp(set_up.STAMP, 'stack.txt')
    assert set_up.is_stamped(set_up.STAMP, 'stack.txt')
    assert not set_up.is_stamped(set_up.STAMP, 'stack.txt', 'full.txt')
    monkeypatch.setenv('TORCH', '2.6.0')
    assert not set_up.is_stamped(set_up.STAMP, 'stack.txt')
    set_up.write_stamp(set_up.STAMP, 'stack.txt')
    assert set_up.is_stamped(set_up.STAMP, 'stack.txt')
    monkeypatch.delenv('TORCH')  # what was chosen is kept
    assert set_up.is_stamped(set_up.STAMP, 'stack.txt')


def test_an_environment_of_others_is_left_alone(set_up):
    set_up.VENV.mkdir()
    (set_up.VENV / 'notes').write_text('mine')
    with pytest.raises(set_up.SetUpError, match='was not made by this script'):
        set_up.create_venv()
    assert (set_up.VENV / 'notes').read_text() == 'mine'


def test_a_complete_environment_is_kept_and_an_incomplete_one_recreated(set_up, monkeypatch):
    monkeypatch.setattr(set_up, 'run', lambda *command: (set_up.VENV / 'bin').mkdir())
    set_up.create_venv()
    set_up.PYTHON.symlink_to(sys.executable)
    (set_up.VENV / 'package').touch()
    set_up.create_venv()
    assert (set_up.VENV / 'package').exists()
    set_up.PYTHON.unlink()
    set_up.create_venv()
    assert not (set_up.VENV / 'package').exists()


@pytest.mark.parametrize('script', ['.github/workflows/ci.yml', '.ci/run', 'CONTRIBUTING.md'])
def test_targets_of_scripts_and_pages_are_in_the_makefile(script):
    text = (ROOT / script).read_text()
    called = set(re.findall(r'^\s*(?:- run: )?make ([a-z]+)', text, re.MULTILINE))
    called |= set(' '.join(re.findall(r"steps\+?=\('?([a-z ]+)", text)).split())
    targets = re.findall(r'^([a-z]+):', (ROOT / 'Makefile').read_text(), re.MULTILINE)
    assert called
    assert called <= set(targets)
