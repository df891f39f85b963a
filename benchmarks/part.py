"""Settings and formatting shared by all parts of the benchmark."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmeffvit.deploy.profile.worker import CLOCKS
from mmeffvit.utils.text import markdown

from .store import Row
from .timing import QUICK, Budget, Ratio, Samples, interleave, speed_up

Cases = dict[str, Callable[[], Row]]  # how to measure each row, by its key
Rows = Mapping[str, Row]


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    device: str = 'cpu'  # or 'cuda'
    quick: bool = False  # smoke test: few rounds, one small model, small images
    # or 'processor' for the CPU time of the process, which is more reliable on a busy machine but
    # does not include waiting
    clock: str = 'wall'

    def time(
        self,
        candidates: Mapping[str, Callable[[], object]],
        seconds: float,
        *,
        min_rounds: int = 5,
        max_rounds: int = 50,
        warm_up: int = 2,
    ) -> Samples:
        """Time the candidates interleaved, for about this number of seconds."""
        budget = QUICK if self.quick else Budget(seconds, min_rounds, max_rounds, warm_up)
        return interleave(candidates, budget, CLOCKS[self.clock])


@dataclass(frozen=True)
class Target:
    """A performance target of the project."""

    name: str  # the measure and the bound
    value: str  # as measured
    reached: bool

    def __str__(self) -> str:
        return (
            f'- {"reached" if self.reached else "**missed**"}: {self.name}; measured {self.value}'
        )


def at_least(
    name: str, ratios: Mapping[str, float], mean: float, each: float | None = None
) -> list[Target]:
    """Targets for the geometric mean and the lowest of ``ratios``, if there are any."""
    if not ratios:
        return []
    average = statistics.geometric_mean(ratios.values())
    targets = [Target(f'{name}, geometric mean at least {mean}', f'{average:.2f}', average >= mean)]
    if each is not None:
        worst = min(ratios, key=ratios.__getitem__)
        value = f'{ratios[worst]:.2f} ({worst})'
        targets.append(Target(f'{name}, none below {each}', value, ratios[worst] >= each))
    return targets


def measured(rows: Rows) -> dict[str, Row]:
    """The rows without those that failed."""
    return {key: row for key, row in rows.items() if 'error' not in row}


def ratio(row: Row, ours: str, peer: str) -> Ratio:
    """The speedup of the candidate ``ours`` of a row over ``peer``."""
    return speed_up(row['seconds'][ours], row['seconds'][peer])


def milliseconds(times: Sequence[float]) -> str:
    """The median, with the minimum in parentheses."""
    return f'{digits(1e3 * statistics.median(times))} ({digits(1e3 * min(times))})'


def digits(value: float) -> str:
    """Three significant digits, or all digits before the decimal point."""
    return f'{value:.0f}' if value >= 100 else f'{value:#.3g}'.rstrip('.')


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    return markdown(heading, [list(map(str, cells)) for cells in rows]).splitlines()


def summary(row: Row) -> str:
    """The medians of a row in one line, for progress messages."""
    if 'error' in row:
        return f'failed: {row["error"]}'
    medians = {k: statistics.median(v) for k, v in row.get('seconds', {}).items() if v}
    return ', '.join(f'{name} {digits(1e3 * value)} ms' for name, value in medians.items())
