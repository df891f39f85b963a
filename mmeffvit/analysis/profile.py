"""A plot of times and memory of a model in every runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .figures import save_figure

MIB = 2**20
BEST = '#2ca02c'
WIDEST = 1.4  # width of the plot relative to the slowest median; longer error bars are cut


def draw_profile(profile: Mapping[str, Any], path: Path) -> None:
    """Draw times and memory of all files of a profile into a PNG.

    For the values see :meth:`mmeffvit.deploy.profile.report.Profile.as_dict`.
    """
    files, absent = profile['measured'], profile['absent']
    rows = len(files) + len(absent)
    figure = Figure(figsize=(13, 2.2 + 0.28 * rows), layout='constrained')
    batch, _, height, width = profile['shape']
    clock = {'wall': 'wall clock', 'processor': 'CPU time'}[profile['clock']]
    figure.suptitle(
        f'{profile["model"]}, batch {batch}, {height} x {width}, {clock}\n'
        f'{profile["machine"]}, {profile["cores"]} cores',
        fontsize='medium',
    )
    times, memory = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    draw_times(times, files)
    draw_memory(memory, files)
    name_rows(times, files, absent)
    save_figure(figure, path)


def name_rows(
    axes: Axes, files: Sequence[Mapping[str, Any]], absent: Sequence[Mapping[str, Any]]
) -> None:
    """Names of the files from the top, the fastest first, above those that were not measured."""
    names = [f'{row["runtime"]}, {row["precision"]}, {row["threads"]} thr.' for row in files]
    names += [f'{row["runtime"]}, {row["precision"]}' for row in absent]
    for position, row in enumerate(absent, start=len(files)):
        axes.annotate(
            row['state'], (0, position), (4, 0), textcoords='offset points', va='center',
            fontsize='small', style='italic', color='C3' if row['state'] == 'rejected' else '0.5',
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize='small')
    axes.set_ylim(len(names) - 0.4, -0.6)


def draw_times(axes: Axes, files: Sequence[Mapping[str, Any]]) -> None:
    """Medians with the first and the last decile."""
    positions = range(len(files))
    times = [(row['median'], *row['spread'], row['last_steps']) for row in files]
    medians, lows, highs, steps = 1e3 * np.array(times).T
    errors = np.maximum(0, [medians - lows, highs - medians])
    colors = [BEST, *['C0'] * (len(files) - 1)]
    axes.barh(positions, medians, 0.7, color=colors, xerr=errors, ecolor='0.3', capsize=2)
    if steps.any():
        left = medians - steps
        axes.barh(positions, steps, 0.7, left=left, color='C1', label='outside of the file')
        place_legend(axes)
    limit = WIDEST * medians.max()
    ends = np.maximum(medians, np.minimum(highs, 0.9 * limit))
    for position, median, end in zip(positions, medians, ends, strict=True):
        axes.annotate(
            f'{median:.2f}', (end, position), (4, 0), textcoords='offset points', va='center',
            fontsize='small',
        )  # fmt: skip
    axes.set_xlim(0, limit)
    axes.set_title('ms, median with 10 % to 90 %', fontsize='medium')


def draw_memory(axes: Axes, files: Sequence[Mapping[str, Any]]) -> None:
    """Peak resident memory of each process, and the part of the model."""
    positions = range(len(files))
    peaks, added = np.array([(row['peak_bytes'], row['model_bytes']) for row in files]).T / MIB
    axes.barh(positions, added, 0.7, color='C0', label='model')
    rest = peaks - added
    bars = axes.barh(positions, rest, 0.7, left=added, color='0.8', label='Python and runtime')
    axes.bar_label(bars, [f'{peak:.0f}' for peak in peaks], padding=3, fontsize='small')
    axes.margins(x=0.15)
    axes.set_title('peak resident memory, MiB', fontsize='medium')
    place_legend(axes)


def place_legend(axes: Axes) -> None:
    axes.legend(
        fontsize='small', loc='upper center', bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False
    )
