"""Reading configs: options, errors, where a run writes."""

from pathlib import Path

import pytest

from mmeffvit.config.load import load_config, require_host_of, resolve_work_dir
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
    with pytest.raises(UserError, match='nothing to replace'):
        load_config(config_file(text + "\nname = 'kept'"), {'data_root': 'x'})


@pytest.mark.parametrize('root', ['data', 'data/'])
def test_data_root_moves_whole_folder_names_only(config_file, root):
    text = f"data_root = {root!r}\nann = 'data/a.json'\nothers = ('data_time', 'mydata/')"
    config = load_config(config_file(text), {'data_root': '/new/'})
    assert config.data_root.rstrip('/') == '/new'
    assert config.ann == '/new/a.json'
    assert tuple(config.others) == ('data_time', 'mydata/')


def test_a_custom_import_that_fails_is_named(config_file):
    path = config_file("custom_imports = dict(imports=['no_such_module'])")
    with pytest.raises(UserError, match='no_such_module'):
        load_config(path)


@pytest.mark.parametrize('scope', ['', "default_scope = 'mmpose'"])
def test_a_config_of_no_host_is_named(config_file, scope):
    with pytest.raises(UserError, match="default_scope = 'mmdet'"):
        require_host_of(load_config(config_file(scope)))
