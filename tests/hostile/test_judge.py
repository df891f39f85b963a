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
from tests.hostile.commands import command
from tests.hostile.judge import CANARY, OUTCOMES, Case, Silent, run_cases, table


class Payload:
    """Creates the canary when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path(CANARY),)


def with_payload(folder: Path) -> None:
    (folder / 'model.pth').write_bytes(pickle.dumps(Payload()))


def with_photographs(folder: Path) -> None:
    (folder / 'photographs').mkdir()
    (folder / 'photographs' / 'only_copy.jpg').write_bytes(b'precious')


def overwrite(folder: Path) -> None:
    (folder / 'photographs' / 'only_copy.jpg').write_bytes(b'int8')


def remove(folder: Path) -> None:
    (folder / 'photographs' / 'only_copy.jpg').unlink()
    (folder / 'photographs').rmdir()


def reject(message: str) -> None:
    raise UserError(message)


def stop(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def loop(folder: Path) -> None:
    while True:
        pass


def start_another(folder: Path) -> None:
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    time.sleep(60)


def grow(folder: Path) -> None:
    kept = []
    while True:
        kept.append(bytearray(b'x') * 2**26)


def fail(folder: Path) -> None:
    raise ValueError('not for users')


def find_wrong(folder: Path) -> None:
    raise Silent('other tensors')


def write_half(folder: Path) -> None:
    (folder / '.out.onnx.0a1b.mmeffvit-partial').write_bytes(b'half')
    reject('disk full')


def nothing(folder: Path) -> None:
    """Done."""


def naive(folder: Path) -> None:
    pickle.loads((folder / 'model.pth').read_bytes())


FAULTS = {
    'a plain unpickler': (naive, with_payload, 'code run'),
    'a writer that removes': (remove, with_photographs, 'data lost'),
    'a writer that overwrites': (overwrite, with_photographs, 'data lost'),
    'an endless loop': (loop, None, 'hang'),
    'a process that waits for its child': (start_another, None, 'hang'),
    'an abort': (lambda folder: os.abort(), None, 'crash'),
    'an exception': (fail, None, 'traceback'),
    'no end of memory': (grow, None, 'memory'),
    'no word': (nothing, None, 'silent'),
    'wrong results': (find_wrong, None, 'silent'),
    'half a file': (write_half, None, 'left over'),
    'two lines': (lambda folder: reject('a.pth is bad\nand so is b.pth'), None, 'unclear'),
    'no name': (lambda folder: reject('bad file'), None, 'void'),
    'escape sequences': (lambda folder: stop('error: a.pth \x1b[2J'), None, 'unclear'),
    'another exit code': (lambda folder: os._exit(5), None, 'unclear'),
    'one clear line': (lambda folder: reject('a.pth is damaged: fetch it again'), None, 'clean'),
}


@pytest.fixture(scope='module')
def verdicts(tmp_path_factory):
    case = partial(Case, 'judge', 'program', seconds=2, memory=2**28)
    cases = [
        case(name, job, prepare or nothing, says=('disk' if name == 'half a file' else 'a.pth',))
        for name, (job, prepare, _) in FAULTS.items()
    ]
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
    rows = table(verdicts.values()).splitlines()
    assert rows[0].split()[:3] == ['group', 'cases', 'clean']
    assert rows[1].split()[:4] == ['judge', str(len(verdicts)), '1', '1']
    assert rows[-1].split()[1] == str(len(verdicts))


def test_a_permission_holds_for_whoever_runs_the_tests(tmp_path):
    def prepare(folder: Path) -> None:
        (folder / 'secret').write_text('x')
        (folder / 'secret').chmod(0)

    def job(folder: Path) -> None:
        try:
            (folder / 'secret').read_text()
        except PermissionError:
            reject('no permission')

    case = Case('judge', 'program', 'permission', job, prepare, says=('permission',))
    (verdict,) = run_cases([case], tmp_path)
    assert verdict.outcome == 'clean', verdict.detail


def write(folder: Path) -> None:
    (folder / 'out').write_text('x')


# a group that reaches what it attacks
in_group = partial(Case, 'group', 'complexity')
GOOD = in_group('good', command('complexity', 'SwiftFormer:xs', '--json', 'a.json'),
                expect='work', makes=('a.json',), is_control=True)  # fmt: skip
BAD = in_group('bad', command('complexity', 'SwiftFormer:x'), says=("'x'", 'xs'), is_control=True)
ATTACK = in_group('attack', command('complexity', 'SwiftFormer:--'), says=("'--'",))
MISSPELT = command('complexety', 'SwiftFormer:--')
UNKNOWN = command('complexity', 'SwiftFormer:--', '--image', 'x.png')
MISSING = command('complexity')
VOID: dict[str, tuple[list[Case], list[str]]] = {
    'a misspelt command': ([GOOD, BAD, replace(ATTACK, job=MISSPELT)], ['attack']),
    'an option that is none': ([GOOD, BAD, replace(ATTACK, job=UNKNOWN)], ['attack']),
    'a missing argument': ([GOOD, BAD, replace(ATTACK, job=MISSING, says=())], ['attack']),
    'a refusal that names something else': (
        [GOOD, BAD, replace(ATTACK, says=('x.png',))], ['attack'],
    ),
    'a misspelt command in all': (
        [replace(case, job=MISSPELT) for case in (GOOD, BAD, ATTACK)], ['good', 'bad', 'attack'],
    ),
    'a good control that is refused': (
        [replace(GOOD, job=BAD.job), BAD, ATTACK], ['good', 'bad', 'attack'],
    ),
    'a good control that writes nothing': (
        [replace(GOOD, job=nothing), BAD, ATTACK], ['good', 'bad', 'attack'],
    ),
    'a bad control that is accepted': ([GOOD, replace(BAD, job=GOOD.job), ATTACK], [
        'good', 'bad', 'attack',
    ]),
    'a bad control that is refused for another reason': (
        [GOOD, replace(BAD, job=ATTACK.job), ATTACK], ['good', 'bad', 'attack'],
    ),
}  # fmt: skip
