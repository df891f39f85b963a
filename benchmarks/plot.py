"""Plot of published accuracy over measured latency."""

import statistics
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter

from mmeffvit.visualization.figures import save_figure
from mmeffvit.zoo import find_model, list_models

from .part import Rows, measured

NAME = 'accuracy_latency.png'
DPI = 120
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
SERIES = {'ours ONNX': 'ours, exported to ONNX Runtime', 'timm eager': 'timm, eager'}
STYLES = {
    'ours ONNX': {},
    'timm eager': dict(linestyle=':', markerfacecolor='white', alpha=0.6),
}


def draw(rows: Rows, folder: Path) -> Path | None:
    """Write the plot of the deployed backbones at their training size, if there are any."""
    points = {name: points_of(rows, name) for name in SERIES}
    if not points['ours ONNX']:
        return None
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
    save_figure(figure, folder / NAME, DPI)
    return folder / NAME


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
