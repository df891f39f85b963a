"""Our small detectors and segmentors compared with popular ones of mmdet and mmseg.

Exported files in ONNX Runtime, one thread, batch 1, each at its own test size. All end with the
outputs of their head: NMS, argmax and resizing of logits are not part of the files.
"""

import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml
from matplotlib.figure import Figure
from mmengine.config import Config
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from mmeffvit.analysis.figures import save_figure
from mmeffvit.config.load import load_config
from mmeffvit.deploy import fuse
from mmeffvit.deploy.graphs.any_size import any_size
from mmeffvit.zoo import find_model

from . import ort
from .deployed import DPI, over_milliseconds
from .detectors import untrained
from .part import Cases, Rows, Settings, digits, measured, milliseconds, table
from .store import Row, rounded

TITLE = 'What users would pick instead'
SECONDS = 40.0
METRICS = {'detection': ('box AP', 'COCO'), 'segmentation': ('mIoU', 'ADE20K')}


@dataclass(frozen=True)
class Entry:
    """A model of a task."""

    name: str  # of its config
    size: tuple[int, int]  # of its test images in pixels
    title: str  # in tables
    package: str = 'mmeffvit'  # whose config it is
    metafile: str = ''  # where mmdet or mmseg publish its accuracy
    published: str = ''  # its name there, if it differs

    @property
    def is_ours(self) -> bool:
        return self.package == 'mmeffvit'


def rival(
    package: str, folder: str, name: str, side: int, title: str, published: str = ''
) -> Entry:
    ending = 'yml' if package == 'mmdet' else 'yaml'
    return Entry(name, (side, side), title, package, f'{folder}/metafile.{ending}', published)


ENTRIES = {
    'detection': (
        Entry('ssdlite_mobilevitv2_050', (320, 320), 'SSDLite, MobileViTv2-0.5'),
        Entry('ssdlite_mobilevitv2_100', (320, 320), 'SSDLite, MobileViTv2-1.0'),
        Entry('ssdlite_mobilevitv2_200', (320, 320), 'SSDLite, MobileViTv2-2.0'),
        Entry('rtmdet_swiftformer_xs', (640, 640), 'RTMDet, SwiftFormer-XS'),
        rival(
            'mmdet', 'ssd', 'ssdlite_mobilenetv2-scratch_8xb24-600e_coco', 320,
            'SSDLite, MobileNetV2',
        ),
        rival(
            'mmdet', 'yolox', 'yolox_tiny_8xb8-300e_coco', 416, 'YOLOX-tiny',
            'yolox_tiny_8x8_300e_coco',
        ),
        rival('mmdet', 'rtmdet', 'rtmdet_tiny_8xb32-300e_coco', 640, 'RTMDet-tiny'),
    ),
    'segmentation': (
        Entry('segformer_swiftformer_xs_ade20k', (512, 512), 'SegFormer, SwiftFormer-XS'),
        Entry('pspnet_mobilevitv2_050_ade20k', (512, 512), 'PSPNet, MobileViTv2-0.5'),
        Entry('deeplabv3_mobilevitv2_050_ade20k', (512, 512), 'DeepLabv3, MobileViTv2-0.5'),
        Entry('semfpn_swiftformer_l1_ade20k', (512, 512), 'Semantic FPN, SwiftFormer-L1'),
        rival('mmseg', 'fastscnn', 'fast_scnn_8xb4-160k_cityscapes-512x1024', 512, 'Fast-SCNN'),
        rival(
            'mmseg', 'bisenetv2', 'bisenetv2_fcn_4xb4-160k_cityscapes-1024x1024', 512, 'BiSeNetV2'
        ),
        rival('mmseg', 'segformer', 'segformer_mit-b0_8xb2-160k_ade20k-512x512', 512,
              'SegFormer-B0'),
    ),
}  # fmt: skip


def cases(settings: Settings) -> Cases:
    return {task: partial(measure, task, settings) for task in ENTRIES}


def measure(task: str, settings: Settings) -> Row:
    """Time all models of a task in turns."""
    entries = ENTRIES[task][3:5] if settings.quick else ENTRIES[task]  # ours and a rival
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries:
            path = ort.export(
                head_of(entry), (1, 3, *entry.size), Path(folder, f'{entry.name}.onnx')
            )
            runs[entry.name] = ort.runner(path, torch.randn(1, 3, *entry.size))
        samples = settings.time(runs, SECONDS)
    accuracy = {entry.name: accuracy_of(entry, task) for entry in entries}
    return dict(accuracy=accuracy, seconds=rounded(samples))


class Head(nn.Module):
    """A detector or segmentor up to the outputs of its head, as a tuple."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = any_size(fuse(model))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        maps = self.model.extract_feat(x)
        head = self.model.bbox_head if hasattr(self.model, 'bbox_head') else self.model.decode_head
        return tuple(pytree.tree_leaves(head(maps)))


def head_of(entry: Entry) -> Head:
    """The network of an entry with its initial weights."""
    if entry.is_ours:
        config = load_config(entry.name)
    else:
        config = Config.fromfile(folder_of(entry) / f'{entry.name}.py')
    return Head(untrained(config)).eval()


def folder_of(entry: Entry) -> Path:
    """The folder of configs of mmdet or mmseg with an entry."""
    package = Path(find_spec(entry.package).origin).parent
    return package / '.mim' / 'configs' / Path(entry.metafile).parent


def accuracy_of(entry: Entry, task: str) -> list[object] | None:
    """Published accuracy in percent, its dataset and its source; None where there is none."""
    metric, dataset = METRICS[task]
    if entry.is_ours:
        for result in find_model(entry.name).results:
            if metric in result.metrics and result.dataset == dataset:
                return [result.metrics[metric], dataset, result.source]
        return None
    content = yaml.safe_load((folder_of(entry) / Path(entry.metafile).name).read_text())
    name = entry.published or entry.name
    (model,) = (each for each in content['Models'] if each['Name'] == name)
    results = model['Results']
    result = results[0] if isinstance(results, list) else results
    return [result['Metrics'][metric], result['Dataset'], f'{entry.package} model zoo']


def titles(task: str) -> dict[str, str]:
    return {entry.name: entry.title for entry in ENTRIES[task]}


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the Pareto-optimal (latency, accuracy) points, the fastest first."""
    front: list[str] = []
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not front or points[name][1] > points[front[-1]][1]:
            front.append(name)
    return front


def points_of(task: str, row: Row) -> dict[str, tuple[float, float]]:
    """Median milliseconds and accuracy in percent, of models evaluated on the task's dataset."""
    _, dataset = METRICS[task]
    return {
        name: (1e3 * statistics.median(times), row['accuracy'][name][0])
        for name, times in row['seconds'].items()
        if row['accuracy'][name] and row['accuracy'][name][1] == dataset
    }


def verdict(name: str, task: str, row: Row) -> str:
    """What a user gains or loses with a model of ours, in a sentence."""
    points, called = points_of(task, row), titles(task)
    rivals = [e.name for e in ENTRIES[task] if not e.is_ours and e.name in row['seconds']]
    own = statistics.median(row['seconds'][name])
    speeds = {other: statistics.median(row['seconds'][other]) / own for other in rivals}
    if name not in points:
        named = ', '.join(f'{called[other]} {speed:.2f}' for other, speed in speeds.items())
        return f'{called[name]}: no published accuracy; times as fast as {named}.'
    words = []
    for other in filter(points.__contains__, rivals):
        gain = points[name][1] - points[other][1]
        words.append(
            f'{speeds[other]:.2f} times as fast as {called[other]} with {gain:+.1f} points'
        )
    place = 'on the Pareto front' if name in pareto(points) else beaten_by(name, points, called)
    return f'{called[name]}: {"; ".join(words)}; {place}.'


def beaten_by(
    name: str, points: Mapping[str, tuple[float, float]], called: Mapping[str, str]
) -> str:
    latency, accuracy = points[name]
    better = [o for o, (t, a) in points.items() if o != name and t <= latency and a >= accuracy]
    return f'beaten in both by {", ".join(called[other] for other in better)}'


def render(rows: Rows) -> list[str]:
    lines = [
        'Exported networks up to the outputs of their heads, all fused, with initial weights, in '
        'turns. Accuracies are published; those on another dataset cannot be compared.'
    ]
    for task, row in measured(rows).items():
        metric, _ = METRICS[task]
        front = pareto(points_of(task, row))
        cells = []
        for entry in ENTRIES[task]:
            if entry.name not in row['seconds']:
                continue
            known = row['accuracy'][entry.name]
            accuracy = f'{known[0]} ({known[1]}; {known[2]})' if known else ''
            size = '{} x {}'.format(*entry.size)
            times = milliseconds(row['seconds'][entry.name])
            mark = 'yes' if entry.name in front else ''
            cells.append([entry.title, entry.package, size, times, accuracy, mark])
        heading = ['model', 'package', 'image', 'ms', metric, 'on the Pareto front']
        lines += ['', *table(heading, cells), '']
        lines += [f'- {verdict(n, task, row)}' for n in ours_in(task, row)]
        lines += ['', f'![{metric} over latency]({plot_name(task)})']
    return lines


def ours_in(task: str, row: Row) -> list[str]:
    return [e.name for e in ENTRIES[task] if e.is_ours and e.name in row['seconds']]


def plot_name(task: str) -> str:
    return f'{task}_accuracy_latency.png'


def draw(rows: Rows, folder: Path) -> None:
    """Write a plot per task to ``folder``: accuracy over latency with the Pareto front."""
    for task, row in measured(rows).items():
        points = points_of(task, row)
        ours = set(ours_in(task, row))
        figure = Figure((8, 5), layout='tight')
        axes = figure.subplots()
        for name, (latency, accuracy) in points.items():
            color = 'tab:blue' if name in ours else 'tab:gray'
            axes.plot(latency, accuracy, 'o' if name in ours else 's', color=color)
            text = f'{titles(task)[name]}, {digits(latency)} ms'
            shift = (7, 6) if name in ours else (7, -12)  # our models and others may be close
            place = dict(xytext=shift, textcoords='offset points', fontsize=8, color=color)
            axes.annotate(text, (latency, accuracy), **place)
        front = [points[name] for name in pareto(points)]
        axes.plot(*zip(*front, strict=True), ':', color='black', alpha=0.5, label='Pareto front')
        metric, dataset = METRICS[task]
        over_milliseconds(
            axes, 'milliseconds per image, one thread, batch 1, without post-processing'
        )
        axes.set_xlim(right=2 * max(latency for latency, _ in points.values()))  # for its name
        axes.margins(y=0.15)
        axes.set_ylabel(f'published {metric} on {dataset}, %')
        axes.legend(fontsize=8, loc='lower right')
        save_figure(figure, folder / plot_name(task), DPI)
