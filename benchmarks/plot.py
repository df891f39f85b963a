"""Published accuracy over measured latency."""

import io
import statistics
from pathlib import Path

import matplotlib

matplotlib.use('Agg')
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter

from mmeffvit.utils.files import write_file

from .part import Rows, measured

NAME = 'accuracy_latency.png'
# top-1 accuracy on ImageNet-1k in percent
TOP1 = {
    # arXiv:2303.15446, table 2
    'swiftformer_xs': 75.7,
    'swiftformer_s': 78.5,
    'swiftformer_l1': 80.9,
    'swiftformer_l3': 83.0,
    # arXiv:2401.16456 and its authors' model zoo
    'shvit_s1': 72.8,
    'shvit_s2': 75.2,
    'shvit_s3': 77.4,
    'shvit_s4': 79.4,
    # arXiv:2206.02680, table 2
    'mobilevitv2_050': 70.2,
    'mobilevitv2_075': 75.6,
    'mobilevitv2_100': 78.1,
    'mobilevitv2_125': 79.7,
    'mobilevitv2_150': 80.4,
    'mobilevitv2_175': 80.8,
    'mobilevitv2_200': 81.2,
    # arXiv:2212.08059, the authors' model zoo, 450 epochs
    'efficientformerv2_s0': 76.2,
    'efficientformerv2_s1': 79.7,
    'efficientformerv2_s2': 82.0,
    'efficientformerv2_l': 83.5,
}
FAMILIES = {
    'swiftformer': ('SwiftFormer', 'o', 'tab:blue'),
    'shvit': ('SHViT', 's', 'tab:orange'),
    'mobilevitv2': ('MobileViTv2', '^', 'tab:green'),
    'efficientformerv2': ('EfficientFormerV2', 'D', 'tab:red'),
}
SERIES = {'ours ONNX': 'ours, ONNX Runtime', 'timm eager': 'timm, eager'}


def draw(rows: Rows, folder: Path) -> Path | None:
    """Write the plot of the deployed backbones, if there are any at the size of their training."""
    points = {name: points_of(rows, name) for name in SERIES}
    if not points['ours ONNX']:
        return None
    figure, axes = plt.subplots(figsize=(10.5, 5.5), dpi=120)
    for candidate, found in points.items():
        for family in FAMILIES:
            own = sorted((t, TOP1[m], m) for m, t in found.items() if m.startswith(f'{family}_'))
            if own:
                draw_family(axes, family, candidate, own)
    axes.set_xscale('log')
    for axis in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        axis(FormatStrFormatter('%g'))
    axes.tick_params(axis='x', which='minor', labelsize=8)
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel('milliseconds per image, one thread, batch 1, backbone only')
    axes.set_ylabel('ImageNet-1k top-1 of the paper, %')
    axes.grid(alpha=0.3, which='both')
    axes.legend(fontsize=8, loc='upper left', bbox_to_anchor=(1.01, 1))
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png')
    plt.close(figure)
    write_file(folder / NAME, buffer.getvalue())
    return folder / NAME


def draw_family(
    axes: Axes, family: str, candidate: str, points: list[tuple[float, float, str]]
) -> None:
    """Points (milliseconds, percent, model) joined by a line; ours with the names of the models."""
    name, marker, colour = FAMILIES[family]
    style = dict(color=colour, marker=marker)
    if candidate != 'ours ONNX':
        style |= dict(linestyle=':', markerfacecolor='white', alpha=0.6)
    latencies, accuracies, models = zip(*points, strict=True)
    axes.plot(latencies, accuracies, label=f'{name}: {SERIES[candidate]}', **style)
    if candidate == 'ours ONNX':
        place = dict(xytext=(7, -11), textcoords='offset points', fontsize=8, color=colour)
        for latency, accuracy, model in zip(latencies, accuracies, models, strict=True):
            text = f'{name} {model.rpartition("_")[2].upper()}'
            axes.annotate(text, (latency, accuracy), **place)


def points_of(rows: Rows, candidate: str) -> dict[str, float]:
    """Median milliseconds by model, at the smallest size that each was measured at."""
    found: dict[str, tuple[list[int], float]] = {}
    for row in measured(rows).values():
        latency = 1e3 * statistics.median(row['seconds'][candidate])
        if row['model'] not in found or row['size'] < found[row['model']][0]:
            found[row['model']] = row['size'], latency
    return {model: latency for model, (_, latency) in found.items()}
