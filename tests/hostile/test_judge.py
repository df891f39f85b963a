"""The judge can find every fault: naive programs and void cases are sorted as what they are."""

import os
import pickle
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mmeffvit.errors import UserError
from tests.hostile.__main__ import run
from tests.hostile.commands import command, in_turn, put
from tests.hostile.judge import OUTCOMES, Case, Silent, judged, run_cases, table
from tests.hostile.pickles import BODIES, FORMATS, Payload


def naive(folder: Path) -> None:
    pickle.loads((folder / 'model.pth').read_bytes())


def read_closed(folder: Path) -> None:
    with pytest.raises(PermissionError):
        (folder / 'closed').read_text()
    reject('a.pth cannot be read')


def reject(message: str) -> None:
    raise UserError(message)


def stop(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def start_another(folder: Path) -> None:
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    time.sleep(60)


def grow(folder: Path) -> None:
    kept = []
    while True:
        kept.append(bytearray(b'x') * 2**26)


def fail(error: Exception) -> None:
    raise error


def write_half(folder: Path) -> None:
    (folder / '.out.onnx.0a1b.mmeffvit-partial').write_bytes(b'half')
    reject('disk full')


def nothing(folder: Path) -> None:
    """Done."""


PICTURE = put('only_copy.jpg', b'precious')
EXECUTING = ('os.system', 'posix.system', 'eval', 'exec', 'open', 'inst', 'obj',
             'stack global', 'map')  # fmt: skip
FAULTS = {
    'a plain unpickler': (naive, put('model.pth', pickle.dumps(Payload())), 'code run'),
    **{
        f'a plain unpickler of {name}': (
            naive, put('model.pth', FORMATS['pickle'](BODIES[name])), 'code run')
        for name in EXECUTING
    },
    'a writer that removes': (
        lambda folder: (folder / 'only_copy.jpg').unlink(), PICTURE, 'data lost'),
    'a writer that overwrites': (
        lambda folder: (folder / 'only_copy.jpg').write_bytes(b'x'), PICTURE, 'data lost'),
    'an endless wait': (lambda folder: time.sleep(60), nothing, 'hang'),
    'a process that waits for its child': (start_another, nothing, 'hang'),
    'an abort': (lambda folder: os.abort(), nothing, 'crash'),
    'an exception': (lambda folder: fail(ValueError('not for users')), nothing, 'traceback'),
    'no end of memory': (grow, nothing, 'memory'),
    'no word': (nothing, nothing, 'silent'),
    'wrong results': (lambda folder: fail(Silent('other tensors')), nothing, 'silent'),
    'half a file': (write_half, nothing, 'left over'),
    'two lines': (lambda folder: stop('error: a.pth is bad\nand b.pth'), nothing, 'unclear'),
    'a line of details': (
        lambda folder: stop('error: a.pth is bad\n  truncated'), nothing, 'clean'),
    'no name': (lambda folder: reject('bad file'), nothing, 'void'),
    'escape sequences': (lambda folder: stop('error: a.pth \x1b[2J'), nothing, 'unclear'),
    'another exit code': (lambda folder: os._exit(5), nothing, 'unclear'),
    'one clear line': (lambda folder: reject('a.pth is damaged: fetch it again'), nothing, 'clean'),
    # whoever runs the tests
    'a permission': (
        read_closed, in_turn(put('closed', b'x'), lambda folder: (folder / 'closed').chmod(0)),
        'clean'),
}  # fmt: skip


@pytest.fixture(scope='module')
def verdicts(tmp_path_factory):
    case = partial(Case, 'judge', 'program', memory=2**28)
    cases = [
        case(name, job, prepare, says=('disk' if name == 'half a file' else 'a.pth',),
             seconds=2 if outcome == 'hang' else 300)
        for name, (job, prepare, outcome) in FAULTS.items()
    ]  # fmt: skip
    cases.append(case('good', lambda folder: reject('no'), expect='work'))
    found = run_cases(cases, tmp_path_factory.mktemp('judge'), jobs=2)
    return {verdict.case.name: verdict for verdict in found}


@pytest.mark.parametrize('name', FAULTS)
def test_a_fault_is_sorted_as_what_it_is(name, verdicts):
    assert verdicts[name].outcome == FAULTS[name][2], verdicts[name].detail


def test_a_good_input_that_is_rejected_is_a_fault(verdicts):
    assert verdicts['good'].outcome == 'rejected'


def test_the_table_counts_every_outcome(verdicts):
    assert {v.outcome for v in verdicts.values()} == set(OUTCOMES)
    heading, _, row, total = table(verdicts.values()).replace('|', '').splitlines()
    assert heading.split()[:3] == ['group', 'cases', 'clean']
    assert row.split()[:4] == ['judge', str(len(verdicts)), '3', '1']
    assert total.split()[1] == str(len(verdicts))


# a group that reaches what it attacks
in_group = partial(Case, 'group', 'models')
GOOD = in_group('good', command('models', 'shvit_s1'), expect='work', says=('shvit_s1',),
                is_control=True)  # fmt: skip
BAD = in_group('bad', command('models', 'bad'), says=("no model matches 'bad'",), is_control=True)
ATTACK = in_group('attack', command('models', 'x' * 9), says=("'xxxxxxxxx'",))
UNKNOWN = command('modells', 'x' * 9)
VOID = dict.fromkeys(('good', 'bad', 'attack'), 'void')
VOID_ATTACK = {'good': 'clean', 'bad': 'clean', 'attack': 'void'}
GROUPS: dict[str, tuple[list[Case], dict[str, str]]] = {
    'one that reaches it': ([GOOD, BAD, ATTACK], dict.fromkeys(VOID, 'clean')),
    'a command that is unknown': (
        [GOOD, BAD, replace(ATTACK, job=UNKNOWN, says=('modells',))], VOID_ATTACK,
    ),
    'an argument that is missing': (
        [GOOD, BAD, replace(ATTACK, job=command('profile'), says=('required',))], VOID_ATTACK,
    ),
    'a refusal for another reason': (
        [GOOD, BAD, replace(ATTACK, says=('x.png',))], VOID_ATTACK,
    ),
    'a good control that is refused': (
        [replace(GOOD, job=BAD.job), BAD, ATTACK], {**VOID, 'good': 'rejected'},
    ),
    'a good control that writes nothing': (
        [replace(GOOD, makes=('a.json',)), BAD, ATTACK], VOID,
    ),
    'a bad control that is accepted': (
        [GOOD, replace(BAD, job=GOOD.job), ATTACK], {**VOID, 'bad': 'silent'},
    ),
    'a bad control that is refused for another reason': (
        [GOOD, replace(BAD, job=ATTACK.job), ATTACK], VOID,
    ),
}  # fmt: skip


@pytest.fixture(scope='module', autouse=True)
def _imported() -> None:
    """What the command imports, once: every case inherits it."""
    GOOD.job(Path())


@pytest.mark.parametrize('what', GROUPS)
def test_cases_that_reach_nothing_are_void_and_fail_the_run(what, tmp_path, capsys):
    cases, expected = GROUPS[what]
    assert run(cases, tmp_path, jobs=1) == (what != 'one that reaches it')
    found = {v.case.name: v.outcome for v in judged(cases, tmp_path / 'again')}
    assert found == expected, capsys.readouterr().out


@pytest.mark.parametrize(
    ('cases', 'fault'),
    [
        ([BAD, ATTACK], 'group: no control must be accepted by models'),
        ([GOOD, BAD, replace(ATTACK, door='other')], 'no control must be accepted by other'),
        ([GOOD, ATTACK], 'group: no control must be refused'),
        ([GOOD, BAD], 'group: it attacks nothing'),
        ([GOOD, BAD, ATTACK, ATTACK], 'two cases are called group: attack, models'),
    ],
)
def test_a_group_without_controls_is_not_run(cases, fault, tmp_path):
    with pytest.raises(ValueError, match=fault):
        judged(cases, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'values', [dict(), dict(says=('',)), dict(expect='work', is_control=True)]
)  # fmt: skip
def test_a_case_tells_what_shows_that_it_reached_its_target(values):
    with pytest.raises(ValueError, match='what shows that it reached what it attacks'):
        in_group('attack', nothing, **values)
