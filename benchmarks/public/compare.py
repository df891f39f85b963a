"""Train, export and evaluate contenders in turns, one row per run, each with one thread."""

import itertools
import shutil
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mmeffvit.errors import UserError

from ..machine import circumstances
from ..store import Row, Rows
from .clock import Clock
from .contenders import CONTENDERS, Contender, Run
from .data import Located
from .evaluate import evaluate


@dataclass(frozen=True)
class Entry:
    """One run to measure.

    Args:
        contender: Who trains.
        found: On which dataset.
        minutes: CPU minutes that the training should take.
        seed: Random seed.
    """

    contender: Contender
    found: Located
    minutes: int
    seed: int

    @property
    def series(self) -> str:
        """The part of the key that all its runs share."""
        return f'{self.found.name}, {self.contender.name}'

    @property
    def key(self) -> str:
        return f'{self.series}, {self.minutes} min, seed {self.seed}'

    def run(self, rows: Rows, work: Path) -> Run:
        """Its run, whose length follows from the cost of an epoch in earlier rows."""
        known = [row for key, row in rows.rows.items() if key.startswith(f'{self.series}, ')]
        costs = [row['minutes'] / row['epochs'] for row in known if 'epochs' in row]
        cost = costs[-1] if costs else self.contender.minutes_per_epoch
        epochs = max(1, round(self.minutes / cost))
        folder = work / self.found.name / f'{self.contender.name}_{self.minutes}_{self.seed}'
        started = [int(path.stem) for path in folder.glob('*.epochs')]  # of an interrupted run
        if not started:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f'{epochs}.epochs').touch()
        return Run(self.found, folder.resolve(), self.seed, started[0] if started else epochs)


def entries(
    sets: Sequence[Located], names: Sequence[str], minutes: Sequence[int], seeds: Sequence[int]
) -> Iterator[Entry]:
    """The runs in an order in which rivals train beside each other.

    Raises:
        UserError: If a name is no contender for any of the sets.
    """
    tasks = {found.about.task for found in sets}
    known = [contender for contender in CONTENDERS if contender.task in tasks]
    choices = list(dict.fromkeys(contender.name for contender in known))
    for name in names:
        if name not in choices:
            raise UserError(f'{name!r} is no contender; choose {", ".join(choices)}')
    for budget, seed, found in itertools.product(minutes, seeds, sets):
        for contender in known:
            if contender.task == found.about.task and contender.name in (names or choices):
                yield Entry(contender, found, budget, seed)


def measure(wanted: Sequence[Entry], rows: Rows, work: Path, jobs: int) -> int:
    """Add a row for each entry that has none, and return the number of failed ones."""
    lock = threading.Lock()
    missing = [entry for entry in wanted if not rows.has(entry.key)]

    def one(entry: Entry) -> bool:
        with lock:
            run = entry.run(rows, work)
        start = f'{entry.key}: {run.epochs} epochs on {run.data} in {run.folder}'
        print(start, file=sys.stderr, flush=True)
        try:
            row = trained(entry.contender, run)
        except Exception as error:  # the other rows are still worth measuring
            traceback.print_exc()
            row = dict(error=str(error)[:300])
        with lock:
            rows.add(entry.key, {**row, **circumstances()})
        print(f'{entry.key}: {summary(row)}', file=sys.stderr, flush=True)
        return 'error' not in row

    with ThreadPoolExecutor(jobs) as pool:
        return sum(not done for done in pool.map(one, missing))


def trained(contender: Contender, run: Run) -> Row:
    """Train, export, and evaluate the model and its files on the test split."""
    clock = Clock(run.folder / 'clock.json')
    environment = contender.environment()
    if not (run.folder / 'trained').is_file():
        clock.run(
            contender.train(run), environment, run.folder / 'train.log',
            curve=lambda: contender.curve(run),
        )  # fmt: skip
        (run.folder / 'trained').touch()
    row: Row = dict(
        seed=run.seed, epochs=run.epochs, minutes=round(clock.minutes, 2), curve=clock.curve
    )
    row['model'] = scored(contender, run, 'model')
    for kind in contender.export(run):
        try:
            row[kind] = scored(contender, run, kind)
        except UserError as error:  # the model counts without this file
            row[f'{kind} error'] = str(error)[-300:]
    return row


def scored(contender: Contender, run: Run, kind: str) -> Row:
    """The metrics of the model or of an exported file, which is written first."""
    clock, environment = Clock(run.folder / 'after.json'), contender.environment()
    log, out = run.folder / f'{kind}.log', run.folder / f'test_{kind}'
    file = None if kind == 'model' else contender.file(run, kind)
    if file is not None and not file.is_file():
        clock.run(contender.export(run)[kind], environment, log)
    shutil.rmtree(out, ignore_errors=True)
    clock.run(contender.predict(run, kind, out), environment, log)
    row: Row = {name: round(value, 2) for name, value in evaluate(run.found, out).items()}
    if file is not None:
        row |= dict(file=str(file.relative_to(run.folder)), MB=round(file.stat().st_size / 1e6, 2))
    return row


def summary(row: Row) -> str:
    if 'error' in row:
        return f'failed: {row["error"]}'
    metric = next(iter(row['model']))
    values = ', '.join(f'{k} {row[k][metric]}' for k in ('model', 'float', 'int8') if k in row)
    return f'{metric} {values} on the test split, {row["minutes"]} CPU minutes'
