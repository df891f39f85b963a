"""Rows are saved one by one, and an interrupted benchmark is resumed."""

import json
from types import SimpleNamespace

import pytest

from benchmarks.part import Settings
from benchmarks.parts import run_part
from benchmarks.store import Rows
from mmeffvit.errors import UserError

MACHINE = {'cpu': 'a', 'torch': '2'}


def part_of(cases: dict) -> SimpleNamespace:
    return SimpleNamespace(cases=lambda settings: cases)


def test_an_interrupted_part_resumes_with_the_missing_rows(tmp_path):
    path = tmp_path / 'part.json'
    ran = []

    def row(name: str) -> dict:
        ran.append(name)
        return {'seconds': {'ours': [1.0]}}

    def interrupted() -> dict:
        raise KeyboardInterrupt

    cases = {'first': lambda: row('first'), 'second': interrupted, 'third': lambda: row('third')}
    with pytest.raises(KeyboardInterrupt):
        run_part('part', part_of(cases), Settings(), Rows(path, MACHINE))
    cases['second'] = lambda: row('second')
    assert run_part('part', part_of(cases), Settings(), Rows(path, MACHINE)) == 0
    assert ran == ['first', 'second', 'third']
    content = json.loads(path.read_text())
    assert content['machine'] == MACHINE
    assert list(content['rows']) == ran
    assert {'seconds', 'commit', 'date', 'load'} == set(content['rows']['first'])


def test_a_failing_row_does_not_affect_the_others_and_is_retried(tmp_path, capsys):
    path = tmp_path / 'part.json'

    def fail() -> dict:
        raise RuntimeError('maps differ\nby much')

    cases = {'bad': fail, 'good': lambda: {'seconds': {}}}
    assert run_part('part', part_of(cases), Settings(), Rows(path, MACHINE)) == 1
    rows = Rows(path, MACHINE)
    assert rows.rows['bad']['error'] == 'RuntimeError: maps differ'
    assert 'bad: failed: RuntimeError: maps differ' in capsys.readouterr().err
    assert rows.has('good')
    assert not rows.has('bad')


def test_fresh_ignores_the_file(tmp_path):
    path = tmp_path / 'part.json'
    Rows(path, MACHINE).add('row', {'value': 1})
    assert Rows(path, MACHINE).has('row')
    assert not Rows(path, MACHINE, fresh=True).has('row')


def test_rows_of_another_machine_are_rejected_with_the_difference(tmp_path):
    path = tmp_path / 'part.json'
    Rows(path, MACHINE).add('row', {'value': 1})
    with pytest.raises(UserError, match='measured with torch 2, now 3: use --fresh'):
        Rows(path, {**MACHINE, 'torch': '3'})


def test_a_damaged_file_is_rejected(tmp_path):
    path = tmp_path / 'part.json'
    path.write_text('{"rows": {')
    with pytest.raises(UserError, match='has no valid measurements'):
        Rows(path, MACHINE)
