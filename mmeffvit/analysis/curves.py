"""Training curves of work dirs, from the scalars logged by the runner."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmeffvit.errors import UserError
from mmeffvit.utils.files import check_output, read_file
from mmeffvit.zoo.runs import work_dir_in

from .figures import save_figure

AUXILIARY = re.compile(r'^(d\d+|enc|dn)[._]')  # auxiliary losses of decoder layers
NOT_METRICS = re.compile(r'^(step|epoch|iter|(data_)?time|memory)$|_(s|m|l)$')
MAIN_METRICS = re.compile(r'(mAP|mIoU)$')
STYLES = ('-', '--', ':', '-.')
MAX_MARKERS = 20  # curves with fewer points have markers
MAX_STEP = 2**53  # integers that a float represents exactly
NUM_MEANS = 50  # number of windows for smoothing long curves
LOG_RATIO = 10  # ratio of values from which the axis is logarithmic
MAX_LINES = 12  # lines per panel


@dataclass
class History:
    """The training history of a work dir, over all resumed runs."""

    name: str  # of the saved config, or of the folder
    train: list[dict] = field(default_factory=list)  # losses and rates, by iteration in ``step``
    val: list[dict] = field(default_factory=list)  # metrics, by epoch or iteration in ``step``

    @property
    def val_unit(self) -> str:
        """The unit of ``step`` in ``val``."""
        epochs = max((row.get('epoch', 0) for row in self.train), default=0)
        last = max((row['step'] for row in self.val), default=0)
        return 'epoch' if epochs and last <= epochs else 'iteration'


def keys_in(rows: list[dict]) -> list[str]:
    """The keys of the rows, in the order of appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def read_history(work_dir: Path) -> History:
    """Join the runs of a work dir: a resumed run replaces the steps that it repeats."""
    work_dir = work_dir_in(work_dir) or work_dir
    configs = sorted(work_dir.glob('*.py'))
    history = History(configs[0].stem if len(configs) == 1 else work_dir.resolve().name)
    paths = sorted(work_dir.glob('*/vis_data/scalars.json'))  # folder names are timestamps
    for path in paths:
        text = read_file(path).decode(errors='replace')
        rows = [row for row in map(parse, text.splitlines()) if row]
        history.train = append_rows(history.train, [row for row in rows if is_train(row)])
        history.val = append_rows(history.val, [row for row in rows if not is_train(row)])
    if not history.train and not history.val:
        raise UserError(
            f'no scalars in {work_dir}/*/vis_data/scalars.json: give a work dir of mmeffvit train, '
            'after its first log line'
        )
    return history


def is_train(row: dict) -> bool:
    return 'loss' in row or 'lr' in row


def parse(line: str) -> dict | None:
    """A row, or None for an incomplete line of a killed run."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    numbers = {key: value for key, value in row.items() if type(value) in (int, float)}
    found = {k: v for k, v in numbers.items() if isinstance(v, float) or abs(v) <= MAX_STEP}
    return found if type(found.get('step')) is int else None


def append_rows(before: list[dict], after: list[dict]) -> list[dict]:
    start = min((row['step'] for row in after), default=float('inf'))
    return [row for row in before if row['step'] < start] + after


def plot_curves(work_dirs: Sequence[Path], out: Path) -> None:
    """Plot losses, learning rate and metrics of work dirs in the same axes of one PNG.

    Raises:
        UserError: If one has no scalars, or ``out`` is not a PNG.
    """
    check_output(out, '.png')
    histories = [read_history(work_dir) for work_dir in work_dirs]
    if len({history.name for history in histories}) < len(histories):
        for history, work_dir in zip(histories, work_dirs, strict=True):
            history.name = str(work_dir)
    figure = Figure(figsize=(13, 8.5), layout='constrained')
    total, parts, rate, metrics = figure.subplots(2, 2).flat
    figure.suptitle(', '.join(dict.fromkeys(history.name for history in histories)))
    for number, history in enumerate(histories):
        style = STYLES[number % len(STYLES)]
        draw_total(total, history, f'C{number}')
        draw_parts(parts, history, style, named=number == 0)
        draw_line(rate, history.train, 'lr', color=f'C{number}', label=history.name)
        draw_metrics(metrics, history, number if len(histories) > 1 else None)
    finish(total, 'loss', 'iteration', log=True, legend=len(histories) > 1)
    finish(parts, 'parts of the loss', 'iteration', log=True)
    finish(rate, 'learning rate', 'iteration', legend=len(histories) > 1)
    units = ' or '.join(dict.fromkeys(h.val_unit for h in histories if h.val))
    finish(metrics, 'validation', units or 'no validation yet')
    save_figure(figure, out)


def draw_line(axes: Axes, rows: list[dict], key: str, **style: object) -> None:
    points = [(row['step'], row[key]) for row in rows if key in row]
    if points:
        marker = 'o' if len(points) < MAX_MARKERS else None
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, **style)


def draw_total(axes: Axes, history: History, color: str) -> None:
    """The finite values of the loss, with a moving mean for many values."""
    rows = [row for row in history.train if math.isfinite(row.get('loss', math.nan))]
    half = len(rows) // (2 * NUM_MEANS)
    if half == 0:
        draw_line(axes, rows, 'loss', color=color, label=history.name)
        return
    steps, losses = (np.array([row[key] for row in rows]) for key in ('step', 'loss'))
    axes.plot(steps, losses, color=color, alpha=0.3, linewidth=1)
    axes.plot(steps, moving_mean(losses, half), color=color, label=history.name)


def moving_mean(values: np.ndarray, half: int) -> np.ndarray:
    """Centered moving mean over ``half`` values on each side, with smaller windows at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    centers = np.arange(len(values))
    reach = np.minimum(half, np.minimum(centers, centers[::-1]))
    return (sums[centers + reach + 1] - sums[centers - reach]) / (2 * reach + 1)


def draw_parts(axes: Axes, history: History, style: str, *, named: bool) -> None:
    keys = [k for k in keys_in(history.train) if 'loss' in k and k != 'loss']
    keys = [key for key in keys if not AUXILIARY.search(key)] or keys
    for number, key in enumerate(keys[:MAX_LINES]):
        label = key if named else None
        draw_line(axes, history.train, key, color=f'C{number % 10}', linestyle=style, label=label)


def draw_metrics(axes: Axes, history: History, run: int | None) -> None:
    """The metrics of one run, or the main ones of run number ``run`` among several."""
    keys = [key for key in keys_in(history.val) if not NOT_METRICS.search(key)]
    if run is not None:
        keys = [key for key in keys if MAIN_METRICS.search(key)] or keys
    for number, key in enumerate(keys[:MAX_LINES]):
        # COCO's metrics are -1 if there are no objects
        rows = [row for row in history.val if row.get(key, -1) != -1]
        style = dict(color=f'C{number % 10}', label=key)
        if run is not None:
            style = dict(color=f'C{run % 10}', linestyle=STYLES[number % len(STYLES)])
            style['label'] = f'{key}, {history.name}'
        draw_line(axes, rows, key, **style)


def finish(axes: Axes, title: str, unit: str, *, log: bool = False, legend: bool = True) -> None:
    axes.set_title(title)
    axes.set_xlabel(unit)
    axes.grid(alpha=0.3)
    low, high = axes.dataLim.intervaly
    if log and high > LOG_RATIO * low > 0:
        axes.set_yscale('log')
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize='small')
