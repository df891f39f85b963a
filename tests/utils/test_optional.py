"""Packages that are missing or fail to load are reported with a fix."""

import sys
from importlib.util import find_spec

import pytest

from mmeffvit.errors import UserError
from mmeffvit.utils import optional
from mmeffvit.utils.optional import EXTRAS, TELEMETRY, install_command, require
from tests.conftest import ROOT, run_python


@pytest.mark.parametrize('package', [*sorted(EXTRAS), 'torchvision', 'timm'])
def test_a_missing_package_is_reported_with_an_install_command(monkeypatch, package):
    # None in sys.modules marks a module that cannot be imported
    for name in [n for n in sys.modules if n.partition('.')[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=f'^{package} is not installed: `pip ') as caught:
        require(package)
    assert install_command(package) in str(caught.value)
    with pytest.raises(UserError, match=f'^Such a job needs {package}, which is not installed'):
        require(package, 'Such a job')


def test_every_extra_in_an_install_command_exists():
    for extra in ','.join(EXTRAS.values()).split(','):
        assert f"'{extra}': [" in (ROOT / 'setup.py').read_text()


def test_extras_are_installed_from_the_checkout(monkeypatch, tmp_path):
    assert install_command('onnx') == f"pip install -e '{ROOT}[onnx]'"
    monkeypatch.setattr(optional, 'PACKAGE', tmp_path / 'site-packages' / 'mmeffvit')
    assert install_command('onnx') == "pip install 'mmeffvit[onnx]'"


@pytest.mark.parametrize(
    ('name', 'error', 'message'),
    [
        (
            'mmcv.ops',
            ImportError('undefined symbol: detail\nand more'),
            r'detail\): `pip uninstall',
        ),
        # mmpretrain beside transformers 5
        (
            'mmdet.models',
            TypeError('NoneType takes'),
            r"takes\): `pip install 'transformers<4\.56'`",
        ),
    ],
)
def test_packages_that_do_not_match_are_reported_with_a_fix(monkeypatch, name, error, message):
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(optional, 'import_module', fail)
    with pytest.raises(UserError, match=rf'{name[:4]}\w* does not work .*{message}'):
        require(name)


def test_a_missing_dependency_of_a_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'onnx_ir', None)
    for name in [n for n in sys.modules if n.partition('.')[0] == 'onnxscript']:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r'onnxscript does not work .*onnx_ir'):
        require('onnxscript')


OFFLINE = """
import os, socket, sys
def reject(*address, **options):
    os.write(1, f'asked for {address}'.encode())  # also from a fork
    raise OSError
socket.getaddrinfo = reject
from mmeffvit.utils.optional import require
for name in sys.argv[1:]:
    require(name)
"""


def test_packages_send_nothing_when_they_are_imported():
    names = [name for name in TELEMETRY if find_spec(name)]
    if not names:
        pytest.skip('neither openvino nor nncf is installed')
    # a continuous integration would not be asked
    done = run_python('-c', OFFLINE, *names, env={'CI': '', 'OMP_NUM_THREADS': '1'})
    assert (done.returncode, done.stdout) == (0, '')
