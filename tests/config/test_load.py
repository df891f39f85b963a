"""Reading configs: options, errors and work dirs."""

import os
import sys
from pathlib import Path

import pytest

from mmeffvit.config.load import (
    load_config,
    open_config,
    own_configs,
    require_scope,
    resolve_work_dir,
)
from mmeffvit.errors import UserError


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


def test_a_custom_import_that_fails_is_named(config_file):
    path = config_file("custom_imports = dict(imports=['no_such_module'])")
    with pytest.raises(UserError, match='no_such_module'):
        load_config(path)


@pytest.mark.parametrize(
    ('text', 'parts'),
    [
        ('a = 1\nb = dict(c=nothing)\n', ('line 2', "NameError: name 'nothing'")),
        ('a = (\n', ('never closed', 'line 1')),
        ("a = 'caf\xe9'\n".encode('latin-1'), ('UnicodeDecodeError', '0xe9')),
        ('a = 1 / 0\n', ('line 1', 'ZeroDivisionError')),
        ('import sys\nsys.exit(0)\n', ('line 2', 'SystemExit')),
        ("_base_ = 'gone.py'\n", ('gone.py',)),
        ("_base_ = 'some_config.py'\n", ('form a cycle', 'some_config.py -> ')),
        (b'a = 1\0', ('null byte',)),
        ('_base_ = 5', ()),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_config_that_cannot_be_read_is_reported_in_one_line_with_its_place(tmp_path, text, parts):
    path = tmp_path / 'some_config.py'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    child = tmp_path / 'child.py'
    child.write_text("_base_ = './some_config.py'\n")
    for start in (path, child):
        with pytest.raises(UserError) as caught:
            load_config(start)
        assert '\n' not in str(caught.value)
        for part in ('some_config.py', *parts):
            assert part in str(caught.value)


def test_a_cycle_of_bases_is_reported_in_order(tmp_path):
    for name, base in (('a', 'b'), ('b', 'c'), ('c', 'a')):
        (tmp_path / f'{name}.py').write_text(f"_base_ = '{base}.py'\n")
    with pytest.raises(UserError, match=r'a\.py -> .*b\.py -> .*c\.py -> .*a\.py; remove one'):
        load_config(tmp_path / 'a.py')


@pytest.mark.parametrize('name', ['config.json', 'config.txt'])
def test_configs_in_other_formats_that_cannot_be_read_are_named(tmp_path, name):
    path = tmp_path / name
    path.write_text('[' * 50_000)
    with pytest.raises(UserError, match=name):
        load_config(path)


@pytest.mark.parametrize('key', ['a.b', 'steps.9.x', 'steps.x', 'data_root'])
def test_an_invalid_option_is_reported_in_one_line(config_file, key):
    path = config_file('a = 1\nsteps = [dict(x=1)]')
    with pytest.raises(UserError, match='some_config'):
        load_config(path, {key: 5})


@pytest.mark.parametrize('scope', ['', "default_scope = 'mmpose'"])
def test_an_unsupported_default_scope_is_reported(config_file, scope):
    with pytest.raises(UserError, match="default_scope = 'mmdet'"):
        require_scope(load_config(config_file(scope)))


def test_a_backbone_of_mmpretrain_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, 'mmpretrain', None)  # as where it is not installed
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
