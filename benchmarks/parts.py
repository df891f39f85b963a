"""The parts of the benchmark, and how the missing rows of one are measured."""

import gc
import sys
import time
import traceback
from types import ModuleType

from mmeffvit.utils.text import duration

from . import (
    alternatives,
    attention,
    backbones,
    choice,
    compiled,
    deployed,
    detectors,
    gemm,
    headlines,
    int8,
    mixers,
    operators,
    papers,
    phones,
    process,
    scaling,
    steps,
    throughput,
    training,
    units,
)
from .machine import circumstances
from .part import Settings, summary
from .store import Rows

PARTS: dict[str, ModuleType] = {
    part.__name__.rpartition('.')[2]: part
    for part in (
        backbones, training, deployed, int8, choice, detectors, operators, alternatives,
        gemm, headlines, papers, phones, scaling, compiled, throughput, attention, mixers, units,
        process, steps,
    )
}  # fmt: skip


def run_part(name: str, part: ModuleType, settings: Settings, rows: Rows) -> int:
    """Measure the missing rows of a part, and return the number of failed rows.

    Args:
        name: Name of the part, for progress messages.
        part: A module with ``cases(settings)``, and ``DEVICES`` if there are others than the CPU.
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
        say(f'[{name} {finished + 1}/{len(cases)}, {duration(left)} left] {key}: {summary(row)}')
    return failed


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
