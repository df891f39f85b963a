"""Reading configs: options, errors and work dirs."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmeffvit.config.datasets import image_folders
from mmeffvit.config.load import (
    load_config,
    open_config,
    own_configs,
    require_scope,
    resolve_work_dir,
)
from mmeffvit.errors import UserError
from mmeffvit.train.checks.run import check_paths
from tests.conftest import run_command_here
from tests.hostile.judge import Ended, message


@pytest.fixture
def config_file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / 'some_config.py'
        path.write_text(text)
        return path

    return write


def test_the_work_dir_is_the_options_then_the_configs_then_the_name(config_file):
    config = load_config(config_file('a = 1'))
    assert resolve_work_dir(config, None) == Path('work_dirs/some_config')
    config.work_dir = 'runs'
    assert resolve_work_dir(config, None) == Path('runs')
    assert resolve_work_dir(config, 'mine') == Path('mine')


@pytest.mark.parametrize('text', ['a = 1', "data_root = ''", "data_root = '/'"])
def test_data_root_needs_one_to_replace(config_file, text):
    with pytest.raises(UserError, match='data_root'):
        load_config(config_file(text + "\nname = 'kept'"), {'data_root': 'x'})


@pytest.mark.parametrize('root', ['data', 'data/'])
def test_data_root_replaces_complete_folder_names_only(config_file, root):
    text = f"data_root = {root!r}\nann = 'data/a.json'\nothers = ('data_time', 'mydata/')"
    config = load_config(config_file(text), {'data_root': '/new/'})
    assert config.data_root.rstrip('/') == '/new'
    assert config.ann == '/new/a.json'
    assert tuple(config.others) == ('data_time', 'mydata/')


def test_a_config_anywhere_inherits_from_ours(config_file, monkeypatch, tmp_path):
    path = config_file("_base_ = '{{$MMEFFVIT_CONFIGS:configs}}/retinanet_shvit_s4.py'")
    monkeypatch.delenv('MMEFFVIT_CONFIGS', raising=False)
    assert load_config(path).model.backbone.type == 'mmeffvit.SHViT'
    assert 'MMEFFVIT_CONFIGS' not in os.environ
    monkeypatch.setenv('MMEFFVIT_CONFIGS', str(tmp_path))  # the user's own folder is kept
    with pytest.raises(UserError, match=f'{tmp_path}/retinanet_shvit_s4.py'):
        load_config(path)


def text(content: str | bytes, word: str, name: str = 'x.py') -> tuple[str, Any, str]:
    data = content if isinstance(content, bytes) else content.encode()
    return name, lambda folder: (folder / name).write_bytes(data), word


def closed(folder: Path) -> None:
    (folder / 'x.py').write_text('')
    (folder / 'x.py').chmod(0)


def two_bases(folder: Path) -> None:
    (folder / 'a.py').write_text('a = 1')
    (folder / 'b.py').write_text('a = 2')
    (folder / 'x.py').write_text("_base_ = ['a.py', 'b.py']")


BASE = "_base_ = 'detector.py'\n"
ABSENT = "'x.py' does not exist"
NO_FILE = "'x.py' is a folder or a device, not a config: give a .py file"
FILES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    'empty': text('', 'default_scope is None in x.py'),
    'no Python': text('model = dict(', "x.py: '(' was never closed"),
    'no text': text(b'\xff\xfe\x00', 'x.py: UnicodeDecodeError'),
    'Latin-1': text('# \xe9'.encode('latin1') + b'\nx = 1', 'x.py: UnicodeDecodeError'),
    'zero byte': text(b'x = 1\0', 'x.py: source code string cannot contain null bytes'),
    'division': text(BASE + 'x = 1 / 0', 'x.py, line 2: ZeroDivisionError'),
    'exit': text(BASE + 'exit(0)', 'x.py, line 2: SystemExit'),
    'exception': text(BASE + "raise ValueError('two\\nlines')", 'ValueError: two'),
    'deep': text('x = ' + '[' * 2000 + ']' * 2000, 'x.py: too many nested parentheses'),
    'endless recursion': text('def f():\n    return f()\nx = f()', 'RecursionError'),
    'custom imports of nothing': text(
        BASE + "custom_imports = dict(imports=['nothing_there'])", 'nothing_there'),
    'custom imports are odd': text(BASE + 'custom_imports = 5', 'x.py: '),
    'base of itself': text("_base_ = 'x.py'", 'x.py: its _base_ files form a cycle'),
    'base that is missing': text("_base_ = 'nothing.py'", 'nothing.py'),
    'base is a number': text('_base_ = 5', "x.py: argument of type 'int'"),
    'base is a folder': text("_base_ = 'shapes'", 'x.py: FileNotFoundError: file'),
    'base of a package that is none': text("_base_ = 'nothing::a.py'", 'x.py: ValueError'),
    'same key in two bases': ('x.py', two_bases, 'x.py: Duplicate key'),
    'no scope': text('model = dict()', 'default_scope is None in x.py'),
    'scope of another': text("default_scope = 'mmpose'\nmodel = dict()", "is 'mmpose' in x.py"),
    'scope is a list': text('default_scope = []\nmodel = dict()', 'default_scope is [] in x.py'),
    'no model': text(BASE + 'model = None', 'model'),
    'model without a type': text(BASE + 'model = dict(_delete_=True)', 'x.py'),
    'a value over a dict': text(BASE + "model = 'x'", "model is 'x' in x.py"),
    'a dict over a value': text(BASE + 'data_root = dict(a=1)', "data_root={'a': 1}"),
    'missing': ('x.py', lambda f: None, ABSENT),
    'folder': ('x.py', lambda f: (f / 'x.py').mkdir(), NO_FILE),
    'pipe': ('x.py', lambda f: os.mkfifo(f / 'x.py'), NO_FILE),
    'device': ('x.py', lambda f: (f / 'x.py').symlink_to('/dev/zero'), NO_FILE),
    'loop of links': ('x.py', lambda f: (f / 'x.py').symlink_to('x.py'), ABSENT),
    'closed': ('x.py', closed, "Permission denied: 'x.py'"),
    'long name': ('n' * 300 + '.py', lambda f: None, 'nnn'),
    'JSON': text('{"model": ', 'x.json: JSONDecodeError', 'x.json'),
    'JSON of a list': text('[1]', 'x.json: ', 'x.json'),
    'YAML': text('a: [', 'x.yaml: ParserError', 'x.yaml'),
    'YAML with a tag': text('a: !nothing b', 'x.yaml: ConstructorError', 'x.yaml'),
    'YAML of references that double': text(
        'a0: &a0 [x, x]\n' + ''.join(f'a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n' for i in range(5))
        + 'default_scope: 5\n', 'default_scope is 5 in x.yaml', 'x.yaml'
    ),
    'another type': text('x = 1', 'x.txt', 'x.txt'),
    'a checkpoint': ('run/epoch_2.pth', lambda f: None, 'run/epoch_2.pth'),
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with what the configs of :data:`FILES` name."""
    monkeypatch.chdir(tmp_path)
    base = own_configs()['maskrcnn_swiftformer_xs_shapes']
    (tmp_path / 'detector.py').write_text(f'_base_ = [{str(base)!r}]')
    for name in ('shapes', 'run'):
        (tmp_path / name).mkdir()
    (tmp_path / 'run/epoch_2.pth').write_bytes(b'PK')
    return tmp_path


@pytest.mark.parametrize('what', [name for name in FILES if name != 'closed'])
def test_a_config_that_cannot_be_used_is_reported_in_one_line_with_its_place(what, here):
    name, make, word = FILES[what]
    make(here)
    done = run_command_here('complexity', name)
    assert done.returncode == 2, done.stdout
    assert word in (message(Ended(2, done.stdout)) or ''), done.stdout


@pytest.mark.parametrize('what', ['no Python', 'Latin-1', 'zero byte', 'division', 'exit'])
def test_a_base_that_cannot_be_read_is_named(what, here):
    _, make, word = FILES[what]
    make(here)
    (here / 'child.py').write_text("_base_ = './x.py'\n")
    with pytest.raises(UserError) as caught:
        load_config(here / 'child.py')
    assert word in str(caught.value)


def test_the_class_of_the_model_tells_the_scope_of_a_config_in_the_new_style(tmp_path):
    path = tmp_path / 'x.py'
    path.write_text('from mmdet.models import RetinaNet\nmodel = dict(type=RetinaNet)\n')
    config = load_config(path)
    assert require_scope(config) == config.default_scope == 'mmdet'


def test_a_cycle_of_bases_is_reported_in_order(tmp_path):
    for name, base in (('a', 'b'), ('b', 'c'), ('c', 'a')):
        (tmp_path / f'{name}.py').write_text(f"_base_ = '{base}.py'\n")
    with pytest.raises(UserError, match=r'a\.py -> .*b\.py -> .*c\.py -> .*a\.py; remove one'):
        load_config(tmp_path / 'a.py')


@pytest.mark.parametrize('key', ['a.b', 'steps.9.x', 'steps.x', 'data_root'])
def test_an_invalid_option_is_reported_in_one_line(config_file, key):
    path = config_file('a = 1\nsteps = [dict(x=1)]')
    with pytest.raises(UserError, match='some_config'):
        load_config(path, {key: 5})


def test_a_backbone_of_mmpretrain_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, 'mmpretrain', None)  # as where it is not installed
    monkeypatch.delitem(sys.modules, 'mmpretrain.models', raising=False)
    with pytest.raises(UserError, match=r'mmpretrain .*\[cls\]'):
        open_config('maskrcnn_poolformer_s12')


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('nms_pre', -1),
        ('nms_pre', 0.5),
        ('max_per_img', -2),
        ('score_thr', float('nan')),
        ('score_thr', '0.3'),
        ('nms.iou_threshold', float('inf')),
    ],
)
def test_thresholds_and_counts_of_the_test_settings_are_checked(key, value):
    path = own_configs()['retinanet_shvit_s4']
    assert load_config(path, {'model.test_cfg.nms_pre': 100}).model.test_cfg.nms_pre == 100
    with pytest.raises(UserError, match=f'model.test_cfg.{key} is .*must be'):
        load_config(path, {f'model.test_cfg.{key}': value})


def test_a_dataset_of_mmpretrain_may_have_one_folder(tmp_path):
    path = tmp_path / 'classifier.py'
    dataset = dict(type='CustomDataset', data_root=str(tmp_path), data_prefix='images')
    path.write_text(
        "default_scope = 'mmpretrain'\nmodel = dict(type='ImageClassifier')\n"
        f'test_dataloader = dict(dataset={dataset})\n'
    )
    config = load_config(path)
    assert image_folders(config) == [tmp_path / 'images']
    with pytest.raises(UserError, match=r"folder '.*images' does not exist"):
        check_paths(config, ('test',))
    (tmp_path / 'images').mkdir()
    check_paths(config, ('test',))
    with pytest.raises(UserError, match=r'data_prefix is 3 .*a dict of folders, or a folder'):
        load_config(path, {'test_dataloader.dataset.data_prefix': 3})
