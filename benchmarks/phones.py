"""Whole detectors for phones, ours and others, with NMS inside the file.

Every model ends with the same steps: the 300 best pairs of box and class of each level are decoded,
and NMS keeps 100 objects. With initial weights few boxes pass the threshold, as in an application.
Each file runs in its own process, in turns, once per runtime. PicoDet and D-FINE are from
``libreyolo`` (MIT, ported from the authors' Apache-2.0 code) and omitted without it. Files for
LiteRT and ncnn return the boxes and scores of all points. Files in int8 are those of
``mmeffvit quantize`` before it keeps any layer in float: random weights have no accuracy.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from matplotlib.figure import Figure
from mmdet.models.data_preprocessors import DetDataPreprocessor
from mmdet.models.task_modules import DistancePointBBoxCoder, MlvlPointGenerator
from mmengine.config import Config
from torch import Tensor, nn

from mmeffvit.analysis.figures import save_figure
from mmeffvit.config.load import load_config
from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from mmeffvit.deploy.formats.openvino.write import to_openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.base import Graph, Preprocessing
from mmeffvit.deploy.graphs.dense import DenseGraph, Level, LightGraph, rows
from mmeffvit.deploy.profile.worker import Job
from mmeffvit.models.detection import LightHead
from mmeffvit.utils.optional import require

from . import ort
from .deployed import over_milliseconds
from .detectors import untrained
from .part import Cases, Rows, Settings, Target, measured, milliseconds, table
from .store import Row, rounded
from .timing import time_files

TITLE = 'Detectors for phones'
SECONDS = 4.0  # for each file
RUNTIMES = {'ONNX Runtime': '.onnx', 'OpenVINO': '.xml'}
OTHERS = {  # of PAIR only
    'ONNX Runtime, int8': '.onnx',
    'OpenVINO, int8': '.xml',
    'LiteRT': '.tflite',
    'LiteRT, int8': '.tflite',
    'ncnn': '.param',
}
PAIR = ('GFLite, SHViT-S1', 'PicoDet-S')
TEST_CFG = dict(
    nms_pre=300, score_thr=0.025, min_bbox_size=0, max_per_img=100,
    nms=dict(type='nms', iou_threshold=0.6),
)  # fmt: skip
PICODET_SIZES = (320, 416)
PLOT = 'phones.png'


class YOLOXGraph(DenseGraph):
    """YOLOX of mmdet: scores times objectness."""

    def __init__(self, model: nn.Module) -> None:
        model.bbox_head.bbox_coder = SimpleNamespace(clip_border=True)  # it decodes by itself
        super().__init__(model)

    def levels(self, x: Tensor) -> Iterator[Level]:
        scores, boxes, objectness = self.head(self.network.extract_feat(x))
        grids = [tuple(level.shape[2:]) for level in scores]
        priors = self.head.prior_generator.grid_priors(grids, device=x.device, with_stride=True)
        for score, box, other, prior in zip(scores, boxes, objectness, priors, strict=True):
            both = rows(score, self.head.cls_out_channels).sigmoid() * rows(other, 1).sigmoid()
            yield both, rows(box, 4), prior

    def decode(self, priors: Tensor, deltas: Tensor) -> Tensor:
        center = deltas[..., :2] * priors[..., 2:] + priors[..., :2]
        half = deltas[..., 2:].exp() * priors[..., 2:] / 2
        return torch.cat([center - half, center + half], dim=-1)


class PicoDet(nn.Module):
    """PicoDet of libreyolo with mmdet's interface; its head has the outputs of ours."""

    def __init__(self) -> None:
        super().__init__()
        nets = require('libreyolo.models.picodet.nn', 'PicoDet')
        self.model = nets.LibrePICODETModel('s').eval()
        for conv in self.model.modules():
            if isinstance(conv, nn.Conv2d) and conv.bias is not None and not conv.bias.any():
                # OpenVINO drops a bias of zeros; NNCF would take the 3 of a hard sigmoid for it
                nn.init.normal_(conv.bias, std=0.02)
        self.data_preprocessor = DetDataPreprocessor(
            mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], bgr_to_rgb=True,
            pad_size_divisor=32,
        )  # fmt: skip
        head = self.bbox_head = self.model.head
        head.reg_max, head.cls_out_channels, head.use_sigmoid_cls = 7, 80, True
        head.steps = torch.arange(8.0)
        head.distances = partial(LightHead.distances, head)
        head.prior_generator = MlvlPointGenerator([8, 16, 32, 64])
        head.bbox_coder = DistancePointBBoxCoder()

    def extract_feat(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.model.neck(self.model.backbone(x))


class DFINEGraph(Graph):
    """D-FINE of libreyolo, which needs no NMS: the 100 best pairs of query and class."""

    task, output_names = 'detection', ('boxes', 'scores', 'labels')

    def __init__(self, size: tuple[int, int]) -> None:
        nets = require('libreyolo.models.dfine.nn', 'D-FINE')
        model = nets.LibreDFINEModel('n', eval_spatial_size=size).deploy()
        super().__init__(model, Preprocessing(std=(255.0, 255.0, 255.0)))

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        found = self.network(x)
        scores = found['pred_logits'].sigmoid()
        best, pairs = scores.flatten(1).topk(100, dim=1)
        index = (pairs // scores.shape[2]).unsqueeze(-1).expand(-1, -1, 4)
        center, sides = found['pred_boxes'].gather(1, index).split(2, dim=-1)
        boxes = torch.cat([center - sides / 2, center + sides / 2], dim=-1)
        scale = boxes.new_tensor([size[1], size[0], size[1], size[0]])
        return boxes * scale, best, pairs % scores.shape[2]


def of_config(config: Config, graph: Callable[[nn.Module], Graph]) -> Graph:
    """The graph of a detector with initial weights."""
    model = untrained(config)
    if type(model.bbox_head).__name__ != 'SSDLiteHead':  # it selects by class, over all levels
        for owner in (model, model.bbox_head):
            owner.test_cfg = Config(TEST_CFG)._cfg_dict
    return graph(model).eval()


def ours(name: str) -> Callable[[int], Graph]:
    return lambda side: of_config(load_config(name), make_graph)


def theirs(name: str, graph: Callable[[nn.Module], Graph] = DenseGraph) -> Callable[[int], Graph]:
    path = Path(find_spec('mmdet').origin).parent / '.mim' / 'configs' / f'{name}.py'
    return lambda side: of_config(Config.fromfile(path), graph)


def picodet(side: int) -> Graph:
    model = PicoDet()
    model.bbox_head.test_cfg = Config(TEST_CFG)._cfg_dict
    return LightGraph(model).eval()


@dataclass(frozen=True)
class Detector:
    """A detector."""

    title: str  # in tables
    side: int  # height and width of its images, in pixels
    make: Callable[[int], Graph]  # its graph for a side
    box_ap: float | None = None  # published on COCO, in percent; None if not trained on it
    source: str = ''  # of the published value
    package: str = 'mmeffvit'  # that has it

    @property
    def name(self) -> str:
        return f'{self.title}, {self.side}'


ZOO, PADDLE = 'mmdet model zoo', 'PaddleDetection model zoo'
DETECTORS = (
    Detector('GFLite, SHViT-S1', 320, ours('gflite_shvit_s1')),
    Detector('GFLite, SHViT-S1', 416, ours('gflite_shvit_s1_416')),
    Detector('GFLite, MobileViTv2-0.5', 320, ours('gflite_mobilevitv2_050')),
    Detector('GFLite, EfficientFormerV2-S0', 320, ours('gflite_efficientformerv2_s0')),
    Detector('GFLite, SwiftFormer-XS', 320, ours('gflite_swiftformer_xs')),
    Detector('SSDLite, MobileViTv2-0.5', 320, ours('ssdlite_mobilevitv2_050'), 21.2,
             'arXiv:2206.02680 table 4'),
    Detector('RTMDet, SHViT-S1', 640, ours('rtmdet_shvit_s1')),
    Detector('PicoDet-S', 320, picodet, 27.1, PADDLE, 'libreyolo'),
    Detector('PicoDet-S', 416, picodet, 30.6, 'arXiv:2111.00902', 'libreyolo'),
    Detector('SSDLite, MobileNetV2', 320, theirs('ssd/ssdlite_mobilenetv2-scratch_8xb24-600e_coco'),
             21.3, ZOO, 'mmdet'),
    Detector('YOLOX-nano', 416, theirs('yolox/yolox_nano_8xb8-300e_coco', YOLOXGraph), 25.8,
             "authors' model zoo", 'mmdet'),
    Detector('YOLOX-tiny', 416, theirs('yolox/yolox_tiny_8xb8-300e_coco', YOLOXGraph), 32.0, ZOO,
             'mmdet'),
    Detector('RTMDet-tiny', 640, theirs('rtmdet/rtmdet_tiny_8xb32-300e_coco'), 40.9, ZOO, 'mmdet'),
    Detector('D-FINE-N', 640, lambda side: DFINEGraph((side, side)), 42.8, "authors' model zoo",
             'libreyolo'),
)  # fmt: skip


def cases(settings: Settings) -> Cases:
    return {runtime: partial(measure, runtime, settings) for runtime in (*RUNTIMES, *OTHERS)}


def measure(runtime: str, settings: Settings) -> Row:
    """Time the files of all detectors in turns."""
    chosen = [d for d in DETECTORS if runtime in RUNTIMES or d.title in PAIR]
    absent = [d.name for d in chosen if not find_spec(d.package)]
    chosen = [d for d in chosen if find_spec(d.package)]
    chosen = chosen[:1] if settings.quick else chosen
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs, failed = {}, {}
        for each in chosen:
            try:
                path = write(each, folder, runtime)
            except Exception as error:  # a model that cannot be converted must not stop the others
                failed[each.name] = f'{type(error).__name__}: {str(error).splitlines()[0][:120]}'
                continue
            images = path.with_suffix('.npy')
            np.save(images, np.random.default_rng(0).random((1, 3, each.side, each.side), 'f4'))
            jobs[each.name] = Job(path, images, threads=1, clock=settings.clock)
        samples = time_files(jobs, 0.05 if settings.quick else SECONDS)
    return dict(seconds=rounded(samples), failed=failed, absent=absent)


def write(detector: Detector, folder: Path, runtime: str) -> Path:
    """The file of a detector for one image of its size."""
    suffix = (RUNTIMES | OTHERS)[runtime]
    path = folder / f'{DETECTORS.index(detector)}{suffix}'
    if suffix == '.param':
        convert(detector, path)
        return path
    source = path.with_suffix('.tflite' if suffix == '.tflite' else '.onnx')
    source.write_bytes(content(detector, source.suffix))
    if runtime.endswith('int8'):
        image = 255 * np.random.default_rng(0).random((1, 3, detector.side, detector.side), 'f4')
        attempt = next(BY_SUFFIX[suffix].quantizer(source, [image]).attempts())
        attempt.save(path, {})
    elif suffix == '.xml':
        to_openvino(source, path)
    return path


@cache
def content(detector: Detector, suffix: str) -> bytes:
    """The float file of a detector, converted once for all runtimes that read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f'model{suffix}')
        convert(detector, path)
        return path.read_bytes()


def convert(detector: Detector, path: Path) -> None:
    torch.manual_seed(0)
    size = (detector.side, detector.side)
    graph, options = detector.make(detector.side).eval(), ExportOptions(size, 1)
    if path.suffix != '.onnx':
        kind = BY_SUFFIX[path.suffix]
        kind.write(Export(kind.part(graph, size), options, {}, half=False), path)
    elif isinstance(graph, DFINEGraph):  # its file does not pass the check of ONNX
        ort.export(graph, (1, 3, *size), path)
    else:
        export_graph(graph, path, options)


def render(rows: Rows) -> list[str]:
    found = measured(rows)
    heading = ['detector', 'package', *(f'{name}, ms' for name in found)]
    heading += ['box AP on COCO', 'source']
    lines = []
    for each in DETECTORS:
        times = [row['seconds'].get(each.name) for row in found.values()]
        cells = [milliseconds(t) if t else '' for t in times]
        accuracy = each.box_ap or 'not trained on COCO'
        lines.append([each.name, each.package, *cells, accuracy, each.source])
    notes = [
        f'- {runtime}: {name} failed: {reason}'
        for runtime, row in found.items()
        for name, reason in row['failed'].items()
    ]
    text = (
        'Whole files with NMS inside, without it for LiteRT and ncnn, initial weights, one thread, '
        'batch 1. Side in pixels.'
    )
    plot = f'![Published box AP over latency]({PLOT})'
    return [text, '', *table(heading, lines), '', *notes, plot]


def targets(rows: Rows) -> list[Target]:
    """Ours with SHViT-S1 below PicoDet-S at the same size, by runtime."""
    found = []
    for runtime, row in measured(rows).items():
        for side in PICODET_SIZES:
            names = [f'GFLite, SHViT-S1, {side}', f'PicoDet-S, {side}']
            if all(name in row['seconds'] for name in names):
                own, other = (statistics.median(row['seconds'][name]) for name in names)
                found.append(
                    Target(
                        f'time of PicoDet-S : GFLite with SHViT-S1 at {side}, {runtime}, above 1',
                        f'{other / own:.2f}',
                        own < other,
                    )
                )
    return found


def draw(rows: Rows, folder: Path) -> None:
    """Write a plot per runtime to ``folder``; models without a published AP are at the bottom."""
    found = {name: row for name, row in measured(rows).items() if name in RUNTIMES}
    if not found:
        return
    figure = Figure((7 * len(found), 5), layout='tight')
    places = figure.subplots(1, len(found), squeeze=False)
    floor = min(each.box_ap for each in DETECTORS if each.box_ap) - 9
    for axes, (runtime, row) in zip(places[0], found.items(), strict=True):
        for each in DETECTORS:
            if each.name not in row['seconds']:
                continue
            milli = 1e3 * statistics.median(row['seconds'][each.name])
            color = 'tab:blue' if each.package == 'mmeffvit' else 'tab:gray'
            axes.plot(milli, each.box_ap or floor, 'o' if each.box_ap else '^', color=color)
            shift = dict(xytext=(0, 6), textcoords='offset points', fontsize=7, color=color)
            rotation = 0 if each.box_ap else 60
            axes.annotate(each.name, (milli, each.box_ap or floor), rotation=rotation, **shift)
        axes.set(ylim=(floor - 1, 46), ylabel='published box AP on COCO, %')
        over_milliseconds(axes, f'{runtime}: milliseconds per image, one thread, NMS included')
        axes.set_title('triangles: not trained on COCO', fontsize=8)
    save_figure(figure, folder / PLOT, dpi=100)
