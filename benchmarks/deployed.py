"""Deployed backbones, batch 1: ours fused and exported, timm's exported, both in ONNX Runtime.

For reference timm's in PyTorch, and a matrix product for the peak rate in the same rounds.
"""

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter

from mmeffvit.analysis.complexity.count import count
from mmeffvit.analysis.figures import save_figure
from mmeffvit.zoo import find_model, list_models

from . import ort
from .backbones import LARGER, key
from .part import Cases, Rows, Settings, Target, at_least, measured, milliseconds, ratio, table
from .peers import QUICK, VARIANTS, Variant, assert_same_maps, build_pair
from .store import Row, rounded

TITLE = 'Deployed backbones'
SECONDS = 5.0
CANDIDATES = ('timm eager', 'timm ONNX', 'ours ONNX')
GEMM, GEMM_SIDE = 'GEMM', 1024
PLOT, DPI = 'accuracy_latency.png', 120
FAMILIES = {
    'swiftformer': ('SwiftFormer', 'o', 'tab:blue'),
    'shvit': ('SHViT', 's', 'tab:orange'),
    'mobilevitv2': ('MobileViTv2', '^', 'tab:green'),
    'efficientformerv2': ('EfficientFormerV2', 'D', 'tab:red'),
}
# top-1 accuracy on ImageNet-1k in percent
TOP1 = {
    name: find_model(name).published()[1]['Top 1 Accuracy']
    for name in list_models(task='classification')
    if name.partition('_')[0] in FAMILIES  # backbones: configs begin with their head
}
SERIES = {'ours ONNX': 'ours, in ONNX Runtime', 'timm ONNX': "timm's, in ONNX Runtime"}
STYLES = {'ours ONNX': {}, 'timm ONNX': dict(linestyle=':', markerfacecolor='white', alpha=0.6)}


def cases(settings: Settings) -> Cases:
    larger = () if settings.quick else LARGER
    return {
        key(v, size): partial(measure, v, size, seconds, settings)
        for v in (QUICK if settings.quick else VARIANTS)
        for size, seconds in (((v.side, v.side), SECONDS), *larger)
    }


def measure(variant: Variant, size: tuple[int, int], seconds: float, settings: Settings) -> Row:
    ours, theirs = build_pair(variant, size)
    x = torch.randn(1, 3, *size)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        theirs_file = ort.export(theirs, tuple(x.shape), Path(folder, 'timm.onnx'))
        ours_file = ort.export_ours(ours, size, Path(folder, 'ours.onnx'))
        runs: dict[str, Callable[[], object]] = {
            'timm eager': partial(theirs, x),
            'timm ONNX': ort.runner(theirs_file, x),
            'ours ONNX': ort.runner(ours_file, x),
        }
        expected = theirs(x)
        for name, run in runs.items():
            assert_same_maps(run(), expected, f'{variant}, {name}')
        runs[GEMM] = ort.matmul(*[GEMM_SIDE] * 3)
        samples = settings.time(runs, seconds)
    macs = count(variant.target, shape=size).total.macs
    return dict(model=str(variant), size=size, macs=macs, seconds=rounded(samples))


def gemm_rate(row: Row) -> float:
    """MACs per second of a large matrix product in ONNX Runtime, in the same rounds."""
    return GEMM_SIDE**3 / statistics.median(row['seconds'][GEMM])


def gemm_share(row: Row, candidate: str) -> float:
    """The fraction of that rate that a backbone reaches."""
    rate = row['macs'] / statistics.median(row['seconds'][candidate])
    return rate / gemm_rate(row)


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    heading = ['model', 'image', *(f'{name}, ms' for name in CANDIDATES)]
    heading += ['ours ONNX : timm eager', 'ours ONNX : timm ONNX']
    lines = []
    for row in rows.values():
        cells = [row['model'], '{} x {}'.format(*row['size'])]
        cells += [milliseconds(row['seconds'][name]) for name in CANDIDATES]
        peers = ('timm eager', 'timm ONNX')
        lines.append([*cells, *(ratio(row, 'ours ONNX', peer) for peer in peers)])
    plot = f'![Published accuracy over measured latency]({PLOT})'
    return [*table(heading, lines), '', *means(rows), '', *gemm_table(rows), '', plot]


def means(rows: Rows) -> list[str]:
    against = {
        peer: [ratio(r, 'ours ONNX', peer).median for r in rows.values()]
        for peer in ('timm eager', 'timm ONNX')
    }
    shown = [f'{statistics.geometric_mean(v):.2f} : {peer}' for peer, v in against.items() if v]
    return [f'Geometric means of ours ONNX: {", ".join(shown)}.'] if shown else []


def gemm_table(rows: Rows) -> list[str]:
    lines = [
        [
            row['model'],
            '{} x {}'.format(*row['size']),
            f'{row["macs"] / 1e9:.3f}',
            f'{2 * gemm_rate(row) / 1e9:.1f}',
            *(f'{gemm_share(row, name):.0%}' for name in ('ours ONNX', 'timm ONNX')),
        ]
        for row in rows.values()
    ]
    heading = ['model', 'image', 'MACs, G', 'GEMM, GFLOP/s']
    heading += ['ours ONNX, share', 'timm ONNX, share']
    return [
        "Fraction of ONNX Runtime's rate in the same rounds for a product of two "
        f'{GEMM_SIDE} x {GEMM_SIDE} matrices; two operations per MAC, without '
        'element-wise operations.',
        '',
        *table(heading, lines),
    ]


def targets(rows: Rows) -> list[Target]:
    rows = measured(rows)
    eager, exported = (
        {key: ratio(row, 'ours ONNX', peer).median for key, row in rows.items()}
        for peer in ('timm eager', 'timm ONNX')
    )
    return [
        *at_least('deployed, ours ONNX : timm eager', eager, 3.0),
        *at_least('deployed, ours ONNX : timm ONNX', exported, 1.05, 1.0),
    ]


def draw(rows: Rows, folder: Path) -> None:
    """Write the plot of the deployed backbones at their training size, if there are any."""
    points = {name: points_of(rows, name) for name in SERIES}
    if not points['ours ONNX']:
        return
    figure = Figure((8, 5), layout='tight')
    axes = figure.subplots()
    for candidate, found in points.items():
        for family in FAMILIES:
            own = sorted((t, TOP1[m], m) for m, t in found.items() if m.startswith(f'{family}_'))
            if own:
                draw_family(axes, family, candidate, own)
    axes.margins(x=0.14, y=0.1)
    over_milliseconds(axes, 'milliseconds per image, one thread, batch 1, backbone only')
    axes.set_ylabel('published top-1 on ImageNet-1k, %')
    lines = [
        Line2D([], [], label=title, **STYLES[candidate], color='tab:gray', marker='o')
        for candidate, title in SERIES.items()
    ]
    axes.legend(handles=lines, fontsize=9, loc='lower right')
    save_figure(figure, folder / PLOT, DPI)


def over_milliseconds(axes: Axes, label: str) -> None:
    """Format a logarithmic axis of times."""
    axes.set(xscale='log', xlabel=label)
    axes.xaxis.set_major_formatter(FormatStrFormatter('%g'))
    axes.xaxis.set_minor_formatter(FormatStrFormatter('%g'))
    axes.tick_params(axis='x', which='minor', labelsize=7)
    axes.grid(alpha=0.3, which='both')


def draw_family(
    axes: Axes, family: str, candidate: str, points: list[tuple[float, float, str]]
) -> None:
    """Draw a line through (milliseconds, percent, model); ours with the names of the models."""
    name, marker, color = FAMILIES[family]
    latencies, accuracies, _ = zip(*points, strict=True)
    axes.plot(latencies, accuracies, color=color, marker=marker, **STYLES[candidate])
    if candidate != 'ours ONNX':
        return
    for index, (latency, accuracy, model) in enumerate(points):
        variant = model.rpartition('_')[2].upper()
        text = variant if index else f'{name} {variant}'  # the family's name once
        place = dict(xytext=(8, -12), textcoords='offset points', fontsize=9, color=color)
        axes.annotate(text, (latency, accuracy), **place)


def points_of(rows: Rows, candidate: str) -> dict[str, float]:
    """Median milliseconds by model, at the smallest measured size."""
    found: dict[str, tuple[list[int], float]] = {}
    for row in measured(rows).values():
        latency = 1e3 * statistics.median(row['seconds'][candidate])
        if row['model'] not in found or row['size'] < found[row['model']][0]:
            found[row['model']] = row['size'], latency
    return {model: latency for model, (_, latency) in found.items()}
