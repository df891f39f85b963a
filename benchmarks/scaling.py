"""Latency over the resolution and memory over the batch size, as SHViT's paper shows them.

Backbones of similar accuracy, fused, with random weights. The paper (arXiv:2401.16456) measures
classifiers on a phone (figure 8), on an A100 and a Xeon (figure 9), and their memory (table 8).
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from mmeffvit.analysis.figures import save_figure
from mmeffvit.deploy import fuse

from . import ort
from .deployed import DPI
from .memory import peak_bytes
from .part import Cases, Rows, Settings, measured, milliseconds, ratio, table
from .peers import Variant, build_ours, randomize
from .store import Row, rounded

TITLE = 'Over the resolution and the batch size'
SECONDS = 10.0
PLOT = 'latency_resolution.png'
# top-1 accuracy on ImageNet-1k between 78.1 and 79.7 %
VARIANTS = (
    Variant('shvit', 's4', 256),
    Variant('mobilevitv2', '100', 256),
    Variant('swiftformer', 's'),
    Variant('efficientformerv2', 's1'),
)
SIDES = (224, 320, 512, 768, 1024)
BATCHES = (1, 4, 16)
REFERENCE = str(VARIANTS[0])
MIB = 2**20


def cases(settings: Settings) -> Cases:
    sides, batches = (SIDES[:1], BATCHES[:1]) if settings.quick else (SIDES, BATCHES)
    return {
        **{f'latency {side} x {side}': partial(latency, side, settings) for side in sides},
        **{f'memory batch {batch}': partial(memory, batch, settings) for batch in batches},
    }


def latency(side: int, settings: Settings) -> Row:
    x = torch.randn(1, 3, side, side)
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for variant in VARIANTS:
            backbone = randomize(build_ours(variant, (side, side)))
            path = Path(folder, f'{variant}.onnx')
            ort.export_ours(backbone, (side, side), path)
            runs[str(variant)] = ort.runner(path, x)
        samples = settings.time(runs, SECONDS)
    return dict(side=side, seconds=rounded(samples))


def memory(batch: int, settings: Settings) -> Row:
    """Peak memory of the activations at each variant's training size."""
    peaks = {}
    with torch.no_grad():
        for variant in VARIANTS:
            size = (variant.side, variant.side)
            model = fuse(randomize(build_ours(variant, size)))
            images = torch.randn(batch, 3, *size)
            peaks[str(variant)] = peak_bytes(partial(model, images), settings.device)
    return dict(batch=batch, peak_bytes=peaks)


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    names = list(map(str, VARIANTS))
    others = names[1:]
    times = [row for row in rows.values() if 'side' in row]
    peaks = [row for row in rows.values() if 'batch' in row]
    heading = ['image', *(f'{name}, ms' for name in names)]
    heading += [f'{REFERENCE} : {name}' for name in others]
    lines = [
        [f'{row["side"]} x {row["side"]}', *(milliseconds(row['seconds'][n]) for n in names)]
        + [ratio(row, REFERENCE, name) for name in others]
        for row in times
    ]
    text = 'Exported backbones in ONNX Runtime, batch 1, one thread. A ratio is the speedup.'
    found = [text, '', *table(heading, lines), '', f'![latency over the resolution]({PLOT})', '']
    heading = ['batch', *(f'{v}, {v.side} x {v.side}, MiB' for v in VARIANTS)]
    heading += [f'{name} / {REFERENCE}' for name in others]
    lines = []
    for row in peaks:
        own = row['peak_bytes']
        cells = [row['batch'], *(f'{own[name] / MIB:.1f}' for name in names)]
        lines.append([*cells, *(f'{own[name] / own[REFERENCE]:.2f}' for name in others)])
    text = (
        'Peak memory of the activations of PyTorch models, without weights and images. SHViT has '
        'the smallest maps, from stride 16 on.'
    )
    return [*found, text, '', *table(heading, lines)]


def draw(rows: Rows, folder: Path) -> None:
    """Write a plot of the latencies to ``folder``, if any were measured."""
    times = [row for row in measured(rows).values() if 'side' in row]
    if not times:
        return
    figure = Figure((7.5, 4.8), layout='tight')
    axes = figure.subplots()
    sides = [row['side'] for row in times]
    for name, marker in zip(map(str, VARIANTS), 'sos^', strict=True):
        medians = [1e3 * statistics.median(row['seconds'][name]) for row in times]
        axes.plot(sides, medians, marker=marker, label=name)
    axes.set(xscale='log', yscale='log', xlabel='side of the image, pixels')
    axes.set_ylabel('milliseconds per image, one thread, ONNX Runtime')
    axes.set_xticks(sides, sides)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3, which='both')
    axes.legend()
    save_figure(figure, folder / PLOT, DPI)
