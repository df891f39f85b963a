"""Run hostile cases, each in a process of its own, and sort what became of them.

A case counts only if it reached what it attacks: a refusal names that, and comes from its reader.
Controls show that the way there is open: a good input that is accepted at every door, and a known
bad one that is refused for its own reason in every group. Without them the others are void.
"""

import ctypes
import faulthandler
import hashlib
import os
import re
import resource
import shutil
import signal
import stat
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.text import escape, markdown

CANARY = 'canary'  # a file of this name is written by payloads alone
PROGRAMS = 'bin'  # folder of a case that is first on PATH
MEMORY = 3 * 2**30  # bytes that a case may take beside what it was started with
KEPT_OUTPUT = 2**20  # bytes
MAX_MESSAGE = 1500  # characters: more is no clear line
POLL = 0.005  # seconds
SILENT = 99  # exit code of a job that found wrong results
OUTCOMES = (
    'clean', 'void', 'traceback', 'silent', 'hang', 'crash', 'code run', 'data lost',
    'memory', 'left over', 'unclear', 'rejected',
)  # fmt: skip
ALWAYS = OUTCOMES[:8]  # columns of every table
MESSAGE = re.compile(r'^(?:[\w.-]+: )?error: (.*)', re.MULTILINE)
HINT = '(--debug shows where it came from)'
USAGE = re.compile(r'^usage: ', re.MULTILINE)  # of a parser that refuses a call
PARTIAL = re.compile(r'mmeffvit-partial|\.tmp$')


class Silent(Exception):  # noqa: N818  an answer, not a fault of the test
    """What was read is not what the file holds."""


@dataclass(frozen=True)
class Case:
    """A hostile input or fault, and what must become of it.

    Args:
        group: Row of the table.
        door: What reads the input: a command or a function.
        name: Unique within the group and the door.
        job: Runs in the process of the case, whose working directory is the folder of the case.
        prepare: Fills that folder beforehand.
        expect: 'reject' ends in one clear line, 'work' ends well, 'either' is both.
        says: Words that a refusal has: the file or value that is attacked, or one of several in a
            tuple. Where it must work, words that are printed.
        makes: Files below the folder that it must have written where it must work.
        is_control: An input whose end is known, see :func:`judged`.
        by_parser: The parser of a command may refuse it: the attack is in the arguments.
        codes: Exit codes of a refusal.
        writes: Paths below the folder that exist before and may change.
        seconds: Time limit.
        memory: Limit of what it takes beside what it was started with, in bytes.
    """

    group: str
    door: str
    name: str
    job: Callable[[Path], Any]
    prepare: Callable[[Path], Any] = lambda folder: None
    expect: str = 'reject'
    says: tuple[str | tuple[str, ...], ...] = ()
    makes: tuple[str, ...] = ()
    is_control: bool = False
    by_parser: bool = False
    codes: tuple[int, ...] = (2,)
    writes: tuple[str, ...] = ()
    seconds: float = 300  # a machine may be busy
    memory: int = MEMORY

    def __post_init__(self) -> None:
        shown = self.says if self.expect != 'work' else self.says + self.makes
        if '' in shown or (not shown and (self.expect != 'work' or self.is_control)):
            raise ValueError(f'{self.title}: what shows that it reached what it attacks?')

    @property
    def title(self) -> str:
        return f'{self.group}: {self.name}, {self.door}'


@dataclass
class Verdict:
    """What became of a case."""

    case: Case
    outcome: str
    detail: str


@dataclass
class Ended:
    """How the process of a case ended."""

    code: int = 0  # negative is a signal
    output: str = ''
    is_late: bool = False
    is_fat: bool = False


def snapshot(folder: Path) -> dict[str, object]:
    """Every path below a folder with the target of a link, a digest of a file, or its kind."""
    return {str(path.relative_to(folder)): content_of(path) for path in folder.rglob('*')}


def content_of(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    if path.is_file() and os.access(path, os.R_OK):
        return hashlib.sha256(path.read_bytes()).digest()
    return stat.S_IFMT(path.stat().st_mode)


def sort(case: Case, ended: Ended, before: dict[str, object], after: dict[str, object]) -> str:
    """The outcome of a case, the worst that holds."""
    new = [path for path in after if path not in before]
    touched = [
        path for path in before
        if after.get(path) != before[path]
        and not any(path == own or path.startswith(f'{own}/') for own in case.writes)
    ]  # fmt: skip
    if any(os.path.basename(path) == CANARY for path in new):
        return 'code run'
    if ended.is_late:
        return 'hang'
    if ended.is_fat:
        return 'memory'
    if ended.code < 0:
        return 'crash'
    if touched:
        return 'data lost'
    if 'Traceback (most recent call last)' in ended.output:
        return 'traceback'
    if ended.code == SILENT:
        return 'silent'
    if any(PARTIAL.search(path) for path in new):
        return 'left over'
    if ended.code == 0:
        if case.expect == 'reject':
            return 'silent'
        made = {path for path in after if after[path] != before.get(path)}
        is_done = made.issuperset(case.makes) and has_all(ended.output, case.says)
        return 'clean' if case.expect == 'either' or is_done else 'void'
    if USAGE.search(ended.output) and not case.by_parser:
        return 'void'
    if ended.code not in case.codes:
        return 'unclear'
    if case.expect == 'work':
        return 'rejected'
    line = message(ended)
    if line is None:
        return 'unclear'
    return 'clean' if has_all(line, case.says) else 'void'


def message(ended: Ended) -> str | None:
    """What a refusal says, if that is one clear line, perhaps with indented ones of details.

    Commands that go on (code 1) report in their own way.
    """
    if ended.code != 2:
        return ended.output
    found = MESSAGE.findall(ended.output)
    rest = MESSAGE.split(ended.output)[-1].replace(HINT, '').strip('\n').splitlines()
    lines = [*found, *rest]
    if len(found) != 1 or len(found[0]) > MAX_MESSAGE or not all(map(str.isprintable, lines)):
        return None
    return '\n'.join(lines) if all(line.startswith('  ') for line in rest) else None


def has_all(text: str, words: Iterable[str | tuple[str, ...]]) -> bool:
    choices = ((word,) if isinstance(word, str) else word for word in words)
    return all(any(word in text for word in each) for each in choices)


def become_ordinary() -> None:
    """Give up root's right to pass over permissions, where a test runs as root."""
    if os.geteuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, of two words
    libc.capget(header, sets)
    for index in (0, 1):
        sets[index] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    libc.capset(header, sets)


def live(case: Case, folder: Path, pipe: int) -> None:
    """The process of a case, to its end."""
    os.setpgid(0, 0)
    faulthandler.disable()
    for number in (1, 2):
        os.dup2(pipe, number)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    sys.stdout = os.fdopen(1, 'w', buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, 'w', buffering=1, errors='backslashreplace', closefd=False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(
        TORCH_HOME=str(folder / 'cache'), HF_HOME=str(folder / 'cache'),
        PATH=f'{folder / PROGRAMS}{os.pathsep}{os.environ["PATH"]}',
    )  # fmt: skip
    code = 1
    try:
        os.chdir(folder)
        become_ordinary()
        case.job(folder)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except UserError as error:  # of a public function
        print(f'error: {escape(str(error))}', file=sys.stderr)
        code = 2
    except Silent as error:
        print(f'wrong result: {error}', file=sys.stderr)
        code = SILENT
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def run_case(case: Case, folder: Path) -> Iterator[Verdict | None]:
    """None as long as the process of a case runs, then the verdict; a clean folder is removed."""
    folder.mkdir(parents=True)
    case.prepare(folder)
    before, output = snapshot(folder), bytearray()
    start, limit = time.monotonic(), case.memory + resident(os.getpid())
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        live(case, folder, writing)
    os.close(writing)
    os.set_blocking(reading, False)
    done, ended = 0, Ended()
    with open(reading, 'rb', buffering=0) as pipe:
        while not (done or ended.is_late or ended.is_fat):
            yield None
            output += (pipe.read(2**20) or b'')[: KEPT_OUTPUT - len(output)]
            done, status = os.waitpid(pid, os.WNOHANG)
            ended.is_late = not done and time.monotonic() - start > case.seconds
            ended.is_fat = not done and resident(pid) > limit
        with suppress(ProcessLookupError):  # what it has started goes with it
            os.killpg(pid, signal.SIGKILL)
        ended.code = os.waitstatus_to_exitcode(status if done else os.waitpid(pid, 0)[1])
        output += pipe.readall() or b''
    ended.output = output[:KEPT_OUTPUT].decode(errors='replace')
    after = snapshot(folder)
    outcome = sort(case, ended, before, after)
    lost = [path for path in before if after.get(path) != before[path]]
    if outcome == 'clean':
        remove(folder)
    detail = f'exit code {ended.code}; changed: {lost}\n{ended.output[-3000:]}'
    yield Verdict(case, outcome, detail)


def resident(pid: int) -> int:
    """Bytes of memory of a process beside the files that it has mapped."""
    try:
        _, rss, shared, *_ = Path(f'/proc/{pid}/statm').read_text().split()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return 0
    return (int(rss) - int(shared)) * resource.getpagesize()


def run_cases(
    cases: Iterable[Case],
    root: Path,
    jobs: int = 1,
    report: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Run cases, ``jobs`` at a time; folders of those that end clean are removed.

    Args:
        cases: Any number; each is prepared when its turn comes.
        root: Gets a folder per case.
        jobs: Processes at a time.
        report: Called with every verdict as it comes.
    """
    waiting = (run_case(case, root / f'{number:05d}') for number, case in enumerate(cases))
    running, verdicts = list(islice(waiting, jobs)), []
    while running:
        time.sleep(POLL)
        for each in running[:]:
            if verdict := next(each):
                verdicts.append(verdict)
                report(verdict)
                running.remove(each)
                running += islice(waiting, 1)
    return verdicts


def judged(
    cases: Sequence[Case],
    root: Path,
    jobs: int = 1,
    report: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Run cases, see :func:`run_cases`; those that no control stands for are void.

    Raises:
        ValueError: If two cases have one title, a door has no good input that must be accepted, or
            a group no bad one that must be refused for its reason, or nothing but controls.
    """
    check(cases)
    return settle(run_cases(cases, root, jobs, report))


def check(cases: Sequence[Case]) -> None:
    controls = [case for case in cases if case.is_control]
    groups, doors = {c.group for c in cases}, {(c.group, c.door) for c in cases}
    closed = doors - {(c.group, c.door) for c in controls if c.expect == 'work'}
    unguarded = groups - {c.group for c in controls if c.expect == 'reject'}
    counts = Counter(case.title for case in cases)
    faults = [f'two cases are called {title}' for title, n in counts.items() if n > 1]
    faults += [f'{group}: no control must be accepted by {door}' for group, door in sorted(closed)]
    faults += [f'{group}: no control must be refused' for group in sorted(unguarded)]
    peaceful = groups - {case.group for case in cases if not case.is_control}
    faults += [f'{group}: it attacks nothing' for group in sorted(peaceful)]
    if faults:
        raise ValueError('\n'.join(faults))


def settle(verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts, with 'void' for what is clean while a control of its door or group is not."""
    failed = [v.case for v in verdicts if v.case.is_control and v.outcome != 'clean']
    shut = {(case.group, case.door) for case in failed if case.expect == 'work'}
    open_to_all = {case.group for case in failed if case.expect == 'reject'}
    for verdict in verdicts:
        group, door = verdict.case.group, verdict.case.door
        if verdict.outcome == 'clean' and ((group, door) in shut or group in open_to_all):
            verdict.outcome, verdict.detail = 'void', 'its control has failed'
    return verdicts


def remove(folder: Path) -> None:
    """Remove the folder of a case, with what cannot be written to."""
    for root, _, _ in os.walk(folder):
        os.chmod(root, stat.S_IRWXU)
    shutil.rmtree(folder)


def table(verdicts: Collection[Verdict]) -> str:
    """Groups by outcomes."""
    counts = Counter((group, v.outcome) for v in verdicts for group in (v.case.group, 'all'))
    columns = [outcome for outcome in OUTCOMES if outcome in ALWAYS or counts['all', outcome]]
    rows = []
    for group in (*dict.fromkeys(v.case.group for v in verdicts), 'all'):
        numbers = [counts[group, outcome] for outcome in columns]
        rows.append([group, str(sum(numbers)), *map(str, numbers)])
    return markdown(['group', 'cases', *columns], rows, numbers=True)
