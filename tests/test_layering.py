"""Packages only import those of lower layers, and few third-party packages."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / 'mmeffvit'
LAYERS = (  # a package may import those of earlier layers
    {'errors', 'version', 'layers', 'operators'},
    {'registry', 'utils'},
    {'checkpoints', 'data'},
    {
        'backbones',
        'necks',
        'classification',
        'detection',
        'segmentation',
        'datasets',
        'distillation',
    },
    {'config'},
    {'checks'},
    {'zoo'},
    {'engine'},
    {'complexity', 'evaluation', 'inference', 'suite'},
    {'deploy', 'visualization'},
    {'finetuning', 'pruning'},
    {'cli'},
    {'__main__'},
)
LAYER_OF = {package: number for number, packages in enumerate(LAYERS) for package in packages}
ALLOWED = {  # allowed imports besides the standard library
    'layers': {'torch'},
    'operators': {'torch', 'torchvision', 'mmcv'},
    'errors': set(),
    'version': set(),
    'registry': {'mmengine', 'torch'},
    'utils': {'matplotlib', 'torch', 'numpy', 'cv2', 'PIL', 'rich', 'onnxruntime'},
    'checkpoints': {'torch', 'numpy', 'safetensors', 'huggingface_hub', 'mmengine', 'rich'},
    'backbones': {'torch', 'mmengine', 'typing_extensions'},
    'necks': {'torch', 'mmengine'},
    'distillation': {'torch', 'torchvision', 'mmengine'},
    'data': {'cv2', 'numpy', 'pycocotools', 'rich', 'yaml'},
    'config': {'torch', 'numpy', 'mmengine'},
}
FILES = sorted(PACKAGE.rglob('*.py'))


def imported_by(path: Path) -> Iterator[str]:
    """The full names of all imports of a file, including those in functions."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = '.'.join([*above, *filter(None, [node.module])])
            yield from (f'{module}.{alias.name}' for alias in node.names)


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix('.py')


@pytest.mark.parametrize('package', sorted(LAYER_OF))
def test_packages_only_import_those_of_lower_layers(package):
    files = [path for path in FILES if package_of(path) == package]
    assert files, f'{package} does not exist: remove it from LAYERS'
    for path in files:
        for name in imported_by(path):
            parts = name.split('.')
            if parts[0] != 'mmeffvit' or len(parts) == 1:
                continue
            other = parts[1] if parts[1] in LAYER_OF else '__init__'
            fine = other == package or LAYER_OF.get(other, -1) < LAYER_OF[package]
            assert fine, f'{path.relative_to(ROOT)} imports {name}: {other} is not below {package}'


def test_every_package_has_a_layer():
    assert {package_of(path) for path in FILES} - {'__init__'} == set(LAYER_OF)


@pytest.mark.parametrize('package', sorted(ALLOWED))
def test_low_layers_import_only_allowed_packages(package):
    for path in FILES:
        if package_of(path) == package:
            names = {name.partition('.')[0] for name in imported_by(path)}
            others = names - set(sys.stdlib_module_names) - {'mmeffvit'}
            assert others <= ALLOWED[package], f'{path.relative_to(ROOT)} imports {others}'


def test_checkpoints_import_nothing_of_mmengine_but_its_records():
    for path in FILES:
        if package_of(path) == 'checkpoints':
            known = {name for name in imported_by(path) if name.startswith('mmengine')}
            assert known <= {'mmengine.logging.HistoryBuffer'}, path


def test_only_commands_print():
    for path in FILES:
        if package_of(path) in ('cli', '__main__'):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ('print', 'sys.stdout.write', 'sys.stderr.write'), (
                    f'{path.relative_to(ROOT)}:{node.lineno} prints: log it with '
                    'mmeffvit.utils.messages, or return it to the command'
                )


def test_production_code_has_no_name_that_pytest_takes_for_a_test():
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert not node.name.lower().startswith('test'), f'{path}: {node.name}'
        assert '__test__' not in path.read_text(), path
