"""Arrows point one way: no room imports one above it, and the low ones know few packages."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / 'mmeffvit'
FLOORS = (  # a room imports those of the floors before its own
    {'errors', 'version', 'layers'},
    {'registry', 'utils'},
    {'checkpoints'},
    {'backbones', 'necks', 'detection', 'segmentation', 'datasets'},
    {'config'},
    {'checks', 'zoo'},
    {'engine'},
    {'complexity', 'evaluation', 'inference', 'preparation', 'suite'},
    {'deploy', 'visualization'},
    {'finetuning'},
    {'cli'},
    {'__main__'},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FOREIGN = {  # all that these may import beside Python's own library
    'layers': {'torch'},
    'errors': set(),
    'version': set(),
    'registry': {'mmengine', 'torch'},
    'utils': {'torch', 'numpy', 'cv2', 'PIL', 'rich', 'onnxruntime'},
    'checkpoints': {'torch', 'numpy', 'safetensors', 'huggingface_hub', 'mmengine', 'rich'},
    'backbones': {'torch', 'mmengine', 'typing_extensions'},
    'necks': {'torch', 'mmengine'},
    'config': {'torch', 'numpy', 'mmengine'},
}
FILES = sorted(PACKAGE.rglob('*.py'))


def imported_by(path: Path) -> Iterator[str]:
    """The full names of what a file imports, in functions too."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = '.'.join([*above, *filter(None, [node.module])])
            yield from (f'{module}.{alias.name}' for alias in node.names)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix('.py')


@pytest.mark.parametrize('room', sorted(FLOOR))
def test_no_room_imports_one_of_its_floor_or_above(room):
    files = [path for path in FILES if room_of(path) == room]
    assert files, f'{room} is gone: take it out of FLOORS'
    for path in files:
        for name in imported_by(path):
            parts = name.split('.')
            if parts[0] != 'mmeffvit' or len(parts) == 1:
                continue
            other = parts[1] if parts[1] in FLOOR else '__init__'
            fine = other == room or FLOOR.get(other, -1) < FLOOR[room]
            assert fine, f'{path.relative_to(ROOT)} imports {name}: {other} is not below {room}'


def test_every_room_has_its_floor():
    assert {room_of(path) for path in FILES} - {'__init__'} == set(FLOOR)


@pytest.mark.parametrize('room', sorted(FOREIGN))
def test_a_low_room_knows_no_more_packages_than_it_should(room):
    for path in FILES:
        if room_of(path) == room:
            names = {name.partition('.')[0] for name in imported_by(path)}
            others = names - set(sys.stdlib_module_names) - {'mmeffvit'}
            assert others <= FOREIGN[room], f'{path.relative_to(ROOT)} imports {others}'


def test_checkpoints_know_nothing_of_mmengine_but_its_records():
    for path in FILES:
        if room_of(path) == 'checkpoints':
            known = {name for name in imported_by(path) if name.startswith('mmengine')}
            assert known <= {'mmengine.logging.HistoryBuffer'}, path


def test_production_code_has_no_name_that_pytest_takes_for_a_test():
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert not node.name.lower().startswith('test'), f'{path}: {node.name}'
        assert '__test__' not in path.read_text(), path
