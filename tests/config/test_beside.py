"""Any text of a dataset goes through configs, their files and their dumps as it is."""

import json
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mmengine.config import Config

from mmeffvit.config.beside import LiteralConfig, dumped_values, literal
from mmeffvit.config.load import load_config
from mmeffvit.errors import UserError

ATTACKS = [
    '{{$X:"(\\\',open("PWNED","w"))#|Z}}',
    '{{$HOME:x}}',
    "{{'$HOME:x'}}",
    '{{ fileDirname }}',
    '{{fileBasename}}',
    '{{ _base_.work_dir }}',
    '{{{{$HOME:x}}}}',
    "'); open('PWNED', 'w') #",
    '"""\nopen("PWNED", "w")\n"""',
    "'''",
    'a\\',
    '\\x7b{{',
    'two\nlines\r\u2028',
    '\udc80\ud800',
    '{0} {name} %s %(x)s $x$ [bold]x[/bold]',
]
PARTS = st.sampled_from(
    ['{{', '}}', '{', '$', 'HOME', ':', '"', "'", '\\', '\n', '"""', '\udc80', 'fileDirname', '#(']
)
TEXT = st.text(st.characters()) | st.lists(PARTS | st.characters().map(str)).map(''.join)


@given(TEXT)
@settings(max_examples=500, deadline=None)
def test_a_literal_is_the_text_and_has_nothing_to_substitute(text):
    code = literal(text)
    assert eval(code) == text
    assert '{{' not in code


@given(st.lists(TEXT, max_size=3))
@example(ATTACKS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_is_written_and_read_back_by_configs(tmp_path, monkeypatch, texts):
    """From the file beside a config, through its dump, and from a literal in a config."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / 'config.py'
    (tmp_path / 'data.json').write_text(json.dumps(dict(names=texts, more={'a': 1})))
    path.write_text(
        '_base_ = []\nfrom mmeffvit.config.beside import read_beside\n'
        "names, more = read_beside('data.json', 'names', 'more')\n"
        f'inside = {literal(texts)}\nmodel = dict(name={literal(texts)})\n'
    )
    config = load_config(path)
    assert isinstance(config, LiteralConfig)
    expected = dict(names=tuple(texts), more={'a': 1}, inside=texts, model=dict(name=texts))
    assert config.to_dict() == expected
    dumped = tmp_path / 'dumped.py'
    config.dump(dumped)  # as mmengine's runner does in the work dir
    assert Config.fromfile(dumped).to_dict() == expected
    assert Config.fromstring(config.pretty_text, '.py').to_dict() == expected  # as --resume does
    assert set(os.listdir(tmp_path)) == {'config.py', 'data.json', 'dumped.py'}


def test_twenty_thousand_names_are_dumped_without_formatting(tmp_path):
    names = tuple(f"it's class {i} of {{{{$HOME:x}}}}" for i in range(20_000))
    config = LiteralConfig(dict(classes=names, model=dict(type='A', sizes=[(1, 2), (3, 4)])))
    config.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == config.to_dict()


def test_a_missing_file_or_value_is_named(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(
        '_base_ = []\nfrom mmeffvit.config.beside import read_beside\n'
        "(names,) = read_beside('data.json', 'names')\n"
    )
    with pytest.raises(UserError, match=r'data\.json'):
        load_config(path)
    (tmp_path / 'data.json').write_text('{}')
    with pytest.raises(UserError, match=r'data\.json .*names'):
        load_config(path)


def test_keys_that_are_no_names_are_read_from_a_dump_and_programs_are_not():
    model = dict(custom_keys={'backbone.norm': dict(decay_mult=0.0), '.cls': 1}, type='A')
    text = LiteralConfig(dict(model=model)).pretty_text
    assert 'dict({' in text
    assert dumped_values(text) == dict(model=model)
    for program in ("dict({'a': exec('1')})", 'dict([1])', 'dict({}, {})', "dict(**{'a': 1})"):
        assert dumped_values(f'model = {program}') is None
