"""Draw the plots of times by runtime: ``python -m docs.hooks.plots``."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.phones import DETECTORS
from mmeffvit.analysis.figures import save_figure
from mmeffvit.train.checks.sample import BATCH

from .tables import DOCS, MACHINE, seconds

GALLERY = DOCS / 'gallery'
EPYC = MACHINE.parent / 'amd_epyc_2_cores'

Times = Mapping[str, Mapping[str, Sequence[float]]]  # seconds of each model by runtime


def draw_phones() -> None:
    """Whole detectors with NMS in the file; the most accurate on top."""
    detectors = sorted(DETECTORS, key=lambda each: each.box_ap or 0)
    rows = seconds('phones', EPYC)
    names = {each.name: f'{each.name}: {each.box_ap or "not trained"}' for each in detectors}
    times = {runtime: row['seconds'] for runtime, row in rows.items()}
    own = {each.name for each in detectors if each.package == 'mmeffvit'}
    draw(GALLERY / 'phones.png', names, times, own, 'detector, pixels: box AP on COCO')


def draw_formats() -> None:
    """Backbones in every format that the profiler compares."""
    rows = seconds('choice')
    formats = sorted({name for row in rows.values() for name in row['seconds']})
    times = {
        name: {key: row['seconds'][name] for key, row in rows.items() if name in row['seconds']}
        for name in formats
    }
    draw(GALLERY / 'formats.png', {key: key for key in reversed(rows)}, times)


def draw_steps() -> None:
    """Training steps of full models by memory layout and precision."""
    rows = seconds('steps')
    variants = next(iter(rows.values()))['seconds']
    times = {
        variant: {key: [s / BATCH for s in row['seconds'][variant]] for key, row in rows.items()}
        for variant in variants
    }
    names = {key: f'{key}, {row["side"]}' for key, row in reversed(rows.items())}
    draw(GALLERY / 'steps.png', names, times, title='config, pixels: forward, backward, update')


def draw(
    path: Path, names: Mapping[str, str], times: Times, bold: Collection[str] = (), title: str = ''
) -> None:
    """One line of dots per model, one color per runtime."""
    figure = Figure(figsize=(11, 1.5 + 0.27 * len(names)), layout='constrained')
    axes = figure.subplots()
    for marker, (runtime, samples) in zip('os^vD*X'[: len(times)], times.items(), strict=True):
        found = {
            place: 1e3 * statistics.median(samples[name])
            for place, name in enumerate(names)
            if name in samples
        }
        axes.plot(found.values(), found.keys(), marker, label=runtime)
    axes.set_yticks(range(len(names)), names.values())
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_fontweight('bold' if name in bold else 'normal')
    axes.set_xscale('log')
    ticks = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
    low, high = axes.get_xlim()
    axes.set_xticks(ticks, map(str, ticks))
    axes.set(xlabel='milliseconds per image, one thread', title=title, xlim=(low, high))
    axes.grid(alpha=0.3)
    figure.legend(loc='outside right upper')
    save_figure(figure, path)


if __name__ == '__main__':
    draw_phones()
    draw_formats()
    draw_steps()
