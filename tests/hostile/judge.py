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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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


def snapshot(folder: Path) -> dict[str, str]:
    """Every path below a folder with its kind and a digest of its content."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                what = f'link to {os.readlink(path)}'
            elif stat.S_ISREG(mode):
                what = f'file {digest(path, mode)}'
            else:
                what = str(stat.S_IFMT(mode))
            found[os.path.relpath(path, folder)] = what
    return found


def digest(path: str, mode: int) -> str:
    if not mode & stat.S_IRUSR:
        return f'{os.lstat(path).st_size} bytes'
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def sort(case: Case, ended: Ended, before: dict[str, str], after: dict[str, str]) -> str:
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


@dataclass
class Running:
    """A case whose process has not ended."""

    case: Case
    folder: Path
    before: dict[str, str]
    pid: int
    pipe: int
    limit: int  # bytes
    start: float = field(default_factory=time.monotonic)
    ended: Ended = field(default_factory=Ended)
    output: bytearray = field(default_factory=bytearray)

    @classmethod
    def begin(cls, case: Case, folder: Path) -> 'Running':
        folder.mkdir(parents=True)
        case.prepare(folder)
        before = snapshot(folder)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            live(case, folder, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        limit = case.memory + resident(os.getpid())
        return cls(case, folder, before, pid, reading, limit)

    def read(self) -> None:
        """Take what it has said."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.pipe, 2**16):
                self.output += chunk[: KEPT_OUTPUT - len(self.output)]

    def is_over(self) -> bool:
        """Look after it: end it when it takes too long or too much."""
        self.read()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.ended.code = os.waitstatus_to_exitcode(status)
        else:
            self.ended.is_late = time.monotonic() - self.start > self.case.seconds
            self.ended.is_fat = resident(self.pid) > self.limit
            if not (self.ended.is_late or self.ended.is_fat):
                return False
        with suppress(ProcessLookupError):  # what it has started goes with it
            os.killpg(self.pid, signal.SIGKILL)
        if not pid:
            os.waitpid(self.pid, 0)
        self.read()
        os.close(self.pipe)
        return True

    def verdict(self) -> Verdict:
        self.ended.output = self.output.decode(errors='replace')
        after = snapshot(self.folder)
        outcome = sort(self.case, self.ended, self.before, after)
        lost = [path for path in self.before if after.get(path) != self.before[path]]
        detail = f'exit code {self.ended.code}; changed: {lost}\n{self.ended.output[-3000:]}'
        return Verdict(self.case, outcome, detail)


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
    waiting, running, verdicts = enumerate(cases), [], []
    while True:
        running += [
            Running.begin(case, root / f'{number:05d}')
            for number, case in islice(waiting, jobs - len(running))
        ]
        if not running:
            return verdicts
        time.sleep(POLL)
        for each in [each for each in running if each.is_over()]:
            running.remove(each)
            verdicts.append(each.verdict())
            report(verdicts[-1])
            if verdicts[-1].outcome == 'clean':
                remove(each.folder)


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
    twice = [title for title, n in Counter(case.title for case in cases).items() if n > 1]
    controls = [case for case in cases if case.is_control]
    open_doors = {(case.group, case.door) for case in controls if case.expect == 'work'}
    guarded = {case.group for case in controls if case.expect == 'reject'}
    faults = [f'two cases are called {title}' for title in twice]
    for group, door in dict.fromkeys((case.group, case.door) for case in cases):
        if (group, door) not in open_doors:
            faults.append(f'{group}: no control must be accepted by {door}')
    for group in dict.fromkeys(case.group for case in cases):
        if group not in guarded:
            faults.append(f'{group}: no control must be refused')
        if all(case.is_control for case in cases if case.group == group):
            faults.append(f'{group}: it attacks nothing')
    if faults:
        raise ValueError('\n'.join(faults))


def with_controls(chosen: Sequence[Case], cases: Sequence[Case]) -> list[Case]:
    """Chosen ones of the cases, and the controls that stand for them."""
    titles, groups = {case.title for case in chosen}, {case.group for case in chosen}
    controls = [case for case in cases if case.is_control and case.group in groups]
    refused = [case for case in controls if case.expect == 'reject']
    doors = {(case.group, case.door) for case in (*chosen, *refused)}
    titles |= {case.title for case in controls if (case.group, case.door) in doors}
    return [case for case in cases if case.title in titles]


def settle(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, with 'void' for what is clean while a control of its door or group is not."""
    verdicts = list(verdicts)
    failed = [v.case for v in verdicts if v.case.is_control and v.outcome != 'clean']
    shut = {(case.group, case.door) for case in failed if case.expect == 'work'}
    open_to_all = {case.group for case in failed if case.expect == 'reject'}
    settled = []
    for verdict in verdicts:
        case = verdict.case
        is_void = (case.group, case.door) in shut or case.group in open_to_all
        if verdict.outcome == 'clean' and is_void:
            verdict = replace(verdict, outcome='void', detail='its control has failed')
        settled.append(verdict)
    return settled


def remove(folder: Path) -> None:
    """Remove the folder of a case, with what cannot be written to."""
    for root, _, _ in os.walk(folder):
        os.chmod(root, stat.S_IRWXU)
    shutil.rmtree(folder)


def table(verdicts: Iterable[Verdict]) -> str:
    """Groups by outcomes."""
    counts = Counter((verdict.case.group, verdict.outcome) for verdict in verdicts)
    groups = list(dict.fromkeys(group for group, _ in counts))
    columns = [o for o in OUTCOMES if o in ALWAYS or any(counts[g, o] for g in groups)]
    rows = [[group, *(str(counts[group, outcome]) for outcome in columns)] for group in groups]
    totals = [sum(int(row[i]) for row in rows) for i in range(1, len(columns) + 1)]
    rows.append(['all', *map(str, totals)])
    rows = [[name, str(sum(map(int, numbers))), *numbers] for name, *numbers in rows]
    return markdown(['group', 'cases', *columns], rows, numbers=True)
