"""Imports point down the floors of the house and never in a circle, file by file."""

import ast
import fnmatch
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / 'mmeffvit'
PAPERS = {path.parent.name for path in PACKAGE.glob('models/*/attention.py')}
FLOORS = (  # a room may import those of earlier floors
    {'errors', 'version', 'models/heads', 'models/layers', 'models/operators'},
    {'registries', 'utils'},
    {'models/checkpoints', 'data'},
    {'models/backbone'},
    {'models/mobile_attention', 'models/mobilevitv2'},  # mixers of other papers' backbones
    {f'models/{paper}' for paper in PAPERS - {'mobile_attention', 'mobilevitv2'}}
    | {f'models/{host}' for host in ('necks', 'detection', 'segmentation')},
    {'models/classification'},  # mmpretrain's networks with layers of the papers
    {'models'},
    {'config', 'registry'},
    {'zoo'},
    {'train'},
    {'inference'},
    {'deploy', 'analysis'},
    {'cli'},
    {'__main__'},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
TORCH = {'torch'}
ALLOWED = {  # imports besides the standard library, by how a path begins; the longest counts
    'models/layers/': TORCH,
    'models/operators/': {'torch', 'torchvision', 'mmcv'},
    'models/necks/': {'torch', 'mmengine'},
    'models/checkpoints/': {
        'torch', 'numpy', 'safetensors', 'huggingface_hub', 'mmengine', 'rich',
    },
    'models/backbone.py': {'torch', 'mmengine', 'typing_extensions'},
    **{f'models/{paper}/': TORCH for paper in PAPERS},
    **{
        f'models/{path.parent.name}/backbone.py': {*TORCH, 'typing_extensions'}
        for path in PACKAGE.glob('models/*/backbone.py')
    },
    'errors.py': set(),
    'version.py': set(),
    'registries.py': {'mmengine', 'torch'},
    'registry.py': set(),
    'utils/': {'matplotlib', 'torch', 'numpy', 'cv2', 'PIL', 'rich'},
    'train/distillation/losses.py': {'torch', 'torchvision', 'mmengine'},
    'train/distillation/maps.py': {'torch', 'torchvision', 'mmengine'},
    'data/': {'cv2', 'numpy', 'pycocotools', 'rich', 'yaml'},
    'data/transforms/': {'cv2', 'numpy', 'PIL', 'mmcv', 'mmengine', 'torch', 'torchvision'},
    'config/': {'torch', 'numpy', 'mmengine'},
}  # fmt: skip


def files_of(package: Path) -> list[Path]:
    return sorted(package.rglob('*.py'))


FILES = files_of(PACKAGE)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_by(path: Path) -> Iterator[str]:
    """The full names of all imports of a file, including those in functions."""
    top = next(place for place in path.parents if place.name == 'mmeffvit')  # the nearest
    package = path.relative_to(top.parent).parent.parts
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = '.'.join([*above, *filter(None, [node.module])])
            yield from (f'{module}.{alias.name}' for alias in node.names)


def arrows_of(package: Path) -> dict[str, set[str]]:
    """The modules of ours that each of our modules imports, without the name of the package."""
    names = {}
    for path in files_of(package):
        parts = path.relative_to(package).with_suffix('').parts
        names['.'.join(parts).removesuffix('__init__').rstrip('.')] = path
    arrows: dict[str, set[str]] = {}
    for name, path in names.items():
        arrows[name] = set()
        for imported in imported_by(path):
            top, _, inner = imported.partition('.')
            if top == 'mmeffvit':
                if inner not in names:
                    inner = inner.rpartition('.')[0]
                assert inner in names, f'{path} imports {imported}, which is no module'
                arrows[name].add(inner)
        if name == 'deploy.formats.table':  # its rows name folders, whose files are found by name
            arrows[name].update(fnmatch.filter(names, 'deploy.formats.*.*'))
        arrows[name].discard(name)
    return arrows


def room_of(module: str) -> str:
    top, _, inner = module.partition('.')
    return f'{top}/{inner.partition(".")[0]}' if top == 'models' and inner else top


def climbs(arrows: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """The imports of a room on the same or a higher floor; the package itself may import all."""
    return {
        (module, other)
        for module in arrows
        for other in arrows[module]
        if module and other and room_of(module) != room_of(other)
        if FLOOR_OF[room_of(other)] >= FLOOR_OF[room_of(module)]
    }


def circles(arrows: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules that reach each other by imports."""
    reached = {}
    for module in arrows:
        found, queue = set(), [module]
        while queue:
            new = arrows[queue.pop()] - found
            found |= new
            queue += new
        reached[module] = found
    groups = (
        frozenset(other for other in reached[module] if module in reached[other])
        for module in arrows
    )
    return {group for group in groups if group}


def test_every_room_has_a_floor():
    assert {room_of(module) for module in arrows_of(PACKAGE)} - {''} == set(FLOOR_OF)


def test_no_file_imports_one_of_a_higher_floor():
    assert climbs(arrows_of(PACKAGE)) == set()


def test_no_files_import_each_other_in_a_circle():
    assert circles(arrows_of(PACKAGE)) == set()


PLANTED = {
    'utils/text.py': 'def lengthen():\n    from mmeffvit.zoo import names',  # late, and up
    'zoo/__init__.py': '',
    'zoo/names.py': 'from ..models.shvit import backbone',
    'models/__init__.py': '',
    'models/shvit/__init__.py': '',
    'models/shvit/backbone.py': 'from .attention import SHSA\nimport mmeffvit.registries',
    'models/shvit/attention.py': 'def f():\n    from .keys import KEYS',
    'models/shvit/keys.py': 'from mmeffvit.models.shvit.backbone import SHViT',
    'registries.py': '',
    '__init__.py': 'from .zoo.names import NAMES',
}


def test_a_planted_climb_and_a_planted_circle_are_found(tmp_path):
    for name, text in PLANTED.items():
        path = tmp_path / 'mmeffvit' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    arrows = arrows_of(tmp_path / 'mmeffvit')
    assert climbs(arrows) == {('utils.text', 'zoo.names')}
    names = ('backbone', 'attention', 'keys')
    assert circles(arrows) == {frozenset(f'models.shvit.{name}' for name in names)}


def allowed_in(path: Path) -> set[str] | None:
    inner = path.relative_to(PACKAGE).as_posix()
    starts = [start for start in ALLOWED if inner.startswith(start)]
    return ALLOWED[max(starts, key=len)] if starts else None


def test_low_floors_import_only_allowed_packages():
    inner = [path.relative_to(PACKAGE).as_posix() for path in FILES]
    for start in ALLOWED:
        assert any(path.startswith(start) for path in inner), start
    for path in FILES:
        allowed = allowed_in(path)
        if allowed is not None:
            names = {name.partition('.')[0] for name in imported_by(path)}
            others = names - set(sys.stdlib_module_names) - {'mmeffvit'}
            assert others <= allowed, f'{path.relative_to(ROOT)} imports {others}'


def test_layers_and_attention_know_no_registry_and_no_config():
    places = [*PACKAGE.glob('models/*/[!bk]*.py'), *PACKAGE.glob('models/layers/*.py')]
    papers = {*PAPERS, 'layers'}
    for path in (path for path in places if path.parent.name in papers):
        ours = {name for name in imported_by(path) if name.startswith('mmeffvit.')}
        assert all(name.startswith('mmeffvit.models.') for name in ours), path


def test_checkpoints_import_nothing_of_mmengine_but_its_records():
    for path in FILES:
        if path.parent == PACKAGE / 'models' / 'checkpoints':
            known = {name for name in imported_by(path) if name.startswith('mmengine')}
            assert known <= {'mmengine.logging.HistoryBuffer'}, path


def test_only_commands_print():
    for path in FILES:
        if path.relative_to(PACKAGE).parts[0] in ('cli', '__main__.py'):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ('print', 'sys.stdout.write', 'sys.stderr.write'), (
                    f'{path.relative_to(ROOT)}:{node.lineno} prints: log it with '
                    'mmeffvit.utils.messages, or return it to the command'
                )


def test_production_code_has_no_name_that_pytest_takes_for_a_test():
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert not node.name.lower().startswith('test'), f'{path}: {node.name}'
        assert '__test__' not in path.read_text(), path
