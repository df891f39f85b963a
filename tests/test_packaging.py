"""The wheel contains the package with its configs and tools, and works when installed."""

import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from mmeffvit import list_models
from tests.conftest import ROOT, run_python, succeeded


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    """A copy: building leaves files next to setup.py, and would use those of earlier builds."""
    kept_out = shutil.ignore_patterns('.*', 'build', 'data', 'work_dirs', '*.egg-info')
    return shutil.copytree(
        ROOT,
        tmp_path_factory.mktemp('wheel') / 'source',
        ignore=lambda *at: kept_out(*at) if Path(at[0]) == ROOT else (),
    )


@pytest.fixture(scope='module')
def wheel(source):
    folder = source.parent
    succeeded(
        run_python(
            '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation', '-w', folder, source
        )
    )
    (path,) = folder.glob('*.whl')
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_one_file_of_mmcv(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split('/')[0].split('-')[0] for name in names} == {'mmeffvit', 'mmcv'}
    assert [name for name in names if name.startswith('mmcv')] == ['mmcv/_ext.py']
    configs = {str(p.relative_to(ROOT)) for p in (ROOT / 'configs').rglob('*.py')}
    tools = {str(p.relative_to(ROOT)) for p in (ROOT / 'tools').rglob('*.py')}
    carried = {n.removeprefix('mmeffvit/.mim/') for n in names if n.startswith('mmeffvit/.mim/')}
    metafiles = {str(p.relative_to(ROOT)) for p in (ROOT / 'configs').rglob('*.yml')}
    assert configs | tools | metafiles | {'model-index.yml'} <= carried
    static = {str(p.relative_to(ROOT)) for p in (ROOT / 'mmeffvit' / 'deploy').rglob('static/*')}
    assert static
    assert static <= set(names)
    assert not any('__pycache__' in name or name.startswith('tests') for name in names)


@pytest.mark.slow
def test_an_editable_installation_adds_the_file_of_mmcv(source):
    code = "from setuptools.build_meta import build_editable; build_editable('editable')"
    succeeded(run_python('-c', code, cwd=source))
    (path,) = (source / 'editable').glob('*.whl')
    archive = zipfile.ZipFile(path)
    operators = ROOT / 'mmeffvit' / 'models' / 'operators' / '_ext.py'
    assert archive.read('mmcv/_ext.py') == operators.read_bytes()
    assert not any(name.startswith('mmeffvit/') for name in archive.namelist())


@pytest.mark.slow
def test_nothing_is_required_but_what_an_extra_needs(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [n for n in archive.namelist() if n.endswith('/METADATA')]
    lines = archive.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith('Requires-Dist')]
    assert all('extra ==' in line for line in required)
    for extra, needed in {
        'backbones': {'torch', 'mmengine'},
        'det': {'torch', 'torchvision', 'mmengine', 'mmcv', 'mmdet', 'setuptools'},
        'predict': {'numpy', 'onnxruntime', 'opencv-python-headless', 'pillow'},
    }.items():
        found = [line for line in required if f"extra == '{extra}'" in line.replace('"', "'")]
        names = {re.match(r'Requires-Dist: ([\w-]+)', line)[1] for line in found}
        assert {name.removesuffix('-lite') for name in names} == needed


@pytest.mark.slow
def test_an_installed_package_finds_its_configs_and_trains_from_its_tools(wheel, tmp_path):
    site = tmp_path / 'site'
    zipfile.ZipFile(wheel).extractall(site)
    env = {'PYTHONPATH': str(site)}
    code = (
        'import mmeffvit; print(mmeffvit.resource_dir("configs"));'
        'print(len(mmeffvit.list_models()))'
    )
    run = run_python('-c', code, env=env, cwd=tmp_path)
    folder, models = run.stdout.split()
    assert folder == os.fspath(site / 'mmeffvit' / '.mim' / 'configs')
    assert int(models) == len(list_models())
    tools = site / 'mmeffvit' / '.mim' / 'tools'
    config = site / 'mmeffvit' / '.mim' / 'configs' / 'maskrcnn_swiftformer_l1.py'
    run = run_python(
        tools / 'train.py', config, '--cfg-options', 'data_root=nowhere/', env=env, cwd=tmp_path
    )
    assert run.returncode == 2
    assert 'nowhere/annotations' in run.stdout
