"""Measure the missing rows of a part."""

import gc
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from .machine import circumstances
from .part import Settings, summary
from .store import Rows


def run_part(name: str, part: ModuleType, settings: Settings, rows: Rows) -> int:
    """Measure the missing rows of a part, and return the number of failed rows.

    Args:
        name: Name of the part, for progress messages.
        part: A module with ``cases(settings)``.
        settings: How to measure.
        rows: Measured rows; new rows are saved immediately.
    """
    cases = {key: run for key, run in part.cases(settings).items() if not rows.has(key)}
    start = time.monotonic()
    failed = 0
    for finished, (key, run) in enumerate(cases.items()):
        try:
            row = run()
        except Exception as error:  # a failing row must not stop the others
            traceback.print_exc()
            row = dict(error=f'{type(error).__name__}: {str(error).splitlines()[0][:300]}')
            failed += 1
        rows.add(key, {**row, **circumstances()})
        gc.collect()
        left = (time.monotonic() - start) / (finished + 1) * (len(cases) - finished - 1)
        say(f'[{name} {finished + 1}/{len(cases)}, {clock(left)} left] {key}: {summary(row)}')
    return failed


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    return f'{int(seconds) // 60}:{int(seconds) % 60:02d}'


def rows_of(name: str, folder: Path, machine: Mapping[str, str], *, fresh: bool = False) -> Rows:
    return Rows(folder / f'{name}.json', dict(machine), fresh=fresh)
