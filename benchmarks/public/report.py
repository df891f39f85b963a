"""Tables and plots of the comparison."""

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmeffvit.analysis.figures import save_figure
from mmeffvit.utils.files import write_file

from ..part import digits, table
from ..store import Row
from .contenders import CONTENDERS
from .data import SETS

KEY = re.compile(r'(?P<set>\w+), (?P<name>.+), (?P<minutes>\d+) min, seed (?P<seed>\d+)')
MARKS = {'bccd': (30, 40, 50, 55, 60), 'camvid': (20, 30, 40, 50, 60)}  # AP and mIoU in percent
HOW = (
    'All train from random weights on the same splits, one thread and one process each, two beside '
    'each other; minutes are CPU minutes of all processes of a training, validation included. One '
    'evaluator scores the test split for all: pycocotools, and a confusion matrix over the pixels '
    'that are not void. Values are means over seeds, with the lowest and the highest. '
    'Names with "bfloat16" train with `--amp-dtype bfloat16`, for CPUs with AMX or AVX-512 BF16. '
    '"ours-swiftformer" has `--model segformer_swiftformer_xs_ade20k`, and "drop-path" '
    '`--cfg-options model.backbone.drop_path_rate=0.1`.'
)
# from scratch on train (and val where it says so), mIoU on the test split
PUBLISHED = (
    ('ENet', '51 to 59.5', 'arXiv:1606.02147 (51.3); a public PyTorch rewrite (59.5)'),
    ('SegNet', '55.6', 'arXiv:1606.02147, table 5'),
    ('FDDWNet', '66.9', 'arXiv:1911.00632'),
    ('LMFFNet', '69.1', '1,000 epochs on train and val'),
)


class Group(list[Row]):
    """The rows of one contender, dataset and budget, one per seed."""

    def spread(self, kind: str, metric: str) -> str:
        """Mean, lowest and highest value; empty where no run has it."""
        values = [row[kind][metric] for row in self if metric in row.get(kind, {})]
        if not values:
            return ''
        mean = f'{statistics.mean(values):.1f}'
        return mean if len(values) == 1 else f'{mean} ({min(values):.1f} to {max(values):.1f})'

    def mean(self, key: str) -> str:
        return f'{statistics.mean(row[key] for row in self):.1f}'

    def reached(self, mark: float) -> str:
        """Mean CPU minutes until a validation reaches a mark; empty unless all runs do."""
        found = [next((t for t, value in row['curve'] if value >= mark), None) for row in self]
        return '' if None in found else f'{statistics.mean(found):.1f}'  # type: ignore[type-var]


def grouped(rows: Mapping[str, Row]) -> dict[str, dict[tuple[str, int], Group]]:
    """Groups by dataset, then by contender and minutes, the shortest first."""
    found: dict[str, dict[tuple[str, int], Group]] = defaultdict(lambda: defaultdict(Group))
    for key, row in rows.items():
        if 'error' not in row and (match := KEY.fullmatch(key)):
            found[match['set']][match['name'], int(match['minutes'])].append(row)
    return {
        name: dict(sorted(groups.items(), key=lambda item: item[0][1]))
        for name, groups in found.items()
    }


def write_report(folder: Path, machine: Mapping[str, str], rows: Mapping[str, Row]) -> Path:
    """Write ``public.md`` and its plots, and return the path."""
    lines = ['# Public datasets, from scratch', '', *table(['machine', ''], machine.items())]
    lines += ['', HOW]
    for name, groups in grouped(rows).items():
        lines += ['', f'## {name}', '', *about(name), '', *results(name, groups)]
        lines += ['', *marks(name, groups), '', *per_class(name, groups)]
        files = rows.get(f'{name}, files', {})
        if files:
            lines += ['', *file_rows(name, groups, files)]
        if name == 'camvid':
            lines += ['', *table(['published, from scratch', 'test mIoU', 'source'], PUBLISHED)]
        for plot in draw(name, groups, files, folder):
            lines += ['', f'![{plot.stem}]({plot.name})']
    failed = [f'- {key} failed: {row["error"]}' for key, row in rows.items() if 'error' in row]
    path = folder / 'public.md'
    write_file(path, '\n'.join([*lines, '', *failed]).rstrip() + '\n')
    return path


def about(name: str) -> list[str]:
    """Source, license and sizes of a dataset, and the licenses of the contenders' code."""
    found = SETS[name]
    licenses = [f'{c.name} {c.license}' for c in CONTENDERS if c.task == found.task]
    train, val, test = found.images
    return [
        f'[{found.repository}]({found.repository}) ({found.license}); {train} images for training, '
        f'{val} for validation, {test} for test. Licenses of the code: {"; ".join(licenses)}.'
    ]


def metric_of(name: str) -> str:
    return 'AP' if SETS[name].task == 'detection' else 'mIoU'


def results(name: str, groups: Mapping[tuple[str, int], Group]) -> list[str]:
    metric = metric_of(name)
    heading = ['model', 'budget (min)', 'CPU minutes', 'epochs', 'seeds', f'test {metric}']
    heading += ['test AP50'] * (metric == 'AP') + [f'{metric}, float file', f'{metric}, int8 file']
    lines = []
    for (contender, minutes), group in groups.items():
        line = [contender, minutes, group.mean('minutes'), group.mean('epochs'), len(group)]
        line += [group.spread('model', metric)]
        line += [group.spread('model', 'AP50')] * (metric == 'AP')
        lines.append([*line, group.spread('float', metric), group.spread('int8', metric)])
    return table(heading, lines)


def marks(name: str, groups: Mapping[tuple[str, int], Group]) -> list[str]:
    heading = ['model', 'budget (min)', *(f'val {metric_of(name)} {mark}' for mark in MARKS[name])]
    rows = [
        [contender, minutes, *(group.reached(mark) for mark in MARKS[name])]
        for (contender, minutes), group in groups.items()
    ]
    return ['CPU minutes until a validation reaches a value:', '', *table(heading, rows)]


def per_class(name: str, groups: Mapping[tuple[str, int], Group]) -> list[str]:
    classes = SETS[name].classes
    rows = [
        [contender, minutes, *(group.spread('model', each).split(' ')[0] for each in classes)]
        for (contender, minutes), group in groups.items()
    ]
    metric = 'AP' if metric_of(name) == 'AP' else 'IoU'
    return [f'{metric} of each class on the test split:', '',
            *table(['model', 'budget (min)', *classes], rows)]  # fmt: skip


def file_rows(name: str, groups: Mapping[tuple[str, int], Group], files: Row) -> list[str]:
    """MACs, sizes and latency of the exported files."""
    rows = []
    for label, seconds in files['seconds'].items():
        contender, kind = label.rsplit(' ', 1)
        group = next(group for (each, _), group in groups.items() if each == contender)
        size = ' x '.join(map(str, files['sizes'][contender]))
        macs = f'{files["macs"][contender] / 1e9:.2f}'
        rows.append([contender, kind, size, macs, group[0][kind]['MB'],
                     digits(1e3 * statistics.median(seconds))])  # fmt: skip
    heading = ['model', 'ONNX file', 'height x width', 'GMACs', 'MB', 'ms']
    how = "Exported files in ONNX Runtime on one thread, interleaved; YOLO11's file has no NMS:"
    return [how, '', *table(heading, rows)]


def draw(
    name: str, groups: Mapping[tuple[str, int], Group], files: Row, folder: Path
) -> list[Path]:
    """Accuracy over CPU minutes, and over milliseconds where files were timed."""
    metric = metric_of(name)
    contenders = list(dict.fromkeys(contender for contender, _ in groups))
    colors = dict(zip(contenders, colormaps['tab10'].colors, strict=False))
    paths = [folder / f'public_{name}_minutes.png']
    axes = Figure((7, 4), layout='constrained').subplots()
    for (contender, _), group in groups.items():
        for row in group:
            axes.plot(
                *zip(*row['curve'], strict=True), color=colors[contender], linewidth=0.8, alpha=0.5
            )
            axes.plot(row['minutes'], row['model'][metric], 'o', color=colors[contender])
    for contender in contenders:
        axes.plot([], [], 'o-', color=colors[contender], label=contender)
    axes.set(xlabel='CPU minutes', ylabel=f'{metric}: lines val, points test', ylim=(0, None))
    save(axes, paths[0])
    if files:
        paths.append(folder / f'public_{name}_latency.png')
        axes = Figure((7, 4), layout='constrained').subplots()
        for label, seconds in files['seconds'].items():
            contender, kind = label.rsplit(' ', 1)
            longest = max(minutes for each, minutes in groups if each == contender)
            values = [row[kind][metric] for row in groups[contender, longest]]
            axes.plot(
                1e3 * statistics.median(seconds),
                statistics.mean(values),
                'o' if kind == 'float' else 's',
                color=colors[contender],
                label=label,
            )
        axes.set(
            xlabel='ms an image, ONNX Runtime, one thread', ylabel=f'test {metric} of the file'
        )
        save(axes, paths[1])
    return paths


def save(axes: Axes, path: Path) -> None:
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    save_figure(axes.figure, path, dpi=110)
