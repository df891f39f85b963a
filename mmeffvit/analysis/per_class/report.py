"""Per-class metrics as a table and as a bar chart."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mmeffvit.analysis.figures import save_figure
from mmeffvit.utils.files import write_file
from mmeffvit.utils.text import counted, markdown

from .values import ClassValues, per_class

MAX_ROWS = 50  # classes in one column of bars


def report_per_class(
    config_path: str, results: Path, out_dir: Path, cfg_options: Mapping[str, Any] | None = None
) -> list[ClassValues]:
    """Write the table and a chart: ``per_class.md`` and ``per_class.png``.

    For arguments and errors see :func:`mmeffvit.analysis.per_class.values.per_class`.
    """
    tables = per_class(config_path, results, cfg_options)
    write_file(out_dir / 'per_class.md', to_markdown(tables))
    draw_bars(tables, f'{Path(config_path).stem}, {results.name}', out_dir / 'per_class.png')
    return tables


def to_markdown(tables: Sequence[ClassValues]) -> str:
    """One column per metric, in percent; cells of classes without ground truth are empty."""
    heading = ['class', *(f'{table.metric}, %' for table in tables)]
    lines = [['**mean**', *(f'{table.mean:.1f}' for table in tables)]]
    for name in tables[0].values:
        values = [table.values[name] for table in tables]
        lines.append([name, *('' if math.isnan(v) else f'{v:.1f}' for v in values)])
    return markdown(heading, lines, numbers=True)


def draw_bars(tables: Sequence[ClassValues], title: str, path: Path) -> None:
    """Bars of the classes with ground truth, sorted by the first metric, best on top."""
    first = tables[0].values
    names = [n for n in first if not all(math.isnan(table.values[n]) for table in tables)]
    names.sort(key=lambda name: -1.0 if math.isnan(first[name]) else first[name])
    columns = max(1, math.ceil(len(names) / MAX_ROWS))
    rows = math.ceil(len(names) / columns)
    height = 1.6 + rows * (0.12 + 0.1 * len(tables))
    figure = Figure(figsize=(max(7, 5 * columns), height), layout='constrained')
    means = ', '.join(f'mean {table.metric} {table.mean:.1f} %' for table in tables)
    hidden = len(first) - len(names)
    note = f'; not shown: {counted(hidden, "class")} without ground truth' if hidden else ''
    figure.suptitle(f'{title}\n{means}{note}', fontsize='medium')
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for column, ax in enumerate(axes):
        end = len(names) - column * rows
        shown = names[max(end - rows, 0) : end]
        for number, table in enumerate(tables):
            shift = (number - (len(tables) - 1) / 2) * 0.8 / len(tables)
            positions = [position - shift for position in range(len(shown))]
            bars = ax.barh(
                positions, [table.values[name] for name in shown], 0.8 / len(tables),
                label=table.metric, color=f'C{number}',
            )  # fmt: skip
            ax.bar_label(bars, fmt='%.1f', padding=2, fontsize='x-small')
            ax.axvline(table.mean, color=f'C{number}', linestyle=':', linewidth=1)
        ax.set_yticks(range(len(shown)), shown, fontsize='small')
        ax.set_ylim(-0.6, len(shown) - 0.4)
        ax.set_xlim(0, 108)
        ax.set_xlabel('percent')
    if len(tables) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc='outside lower center', ncols=2, fontsize='small')
    save_figure(figure, path)
