"""Full detectors and segmentors on one image, including post-processing.

The PyTorch model of mmdet or mmseg, the same model fused, and the exported file in ONNX Runtime,
with initial weights.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmeffvit.analysis.complexity.count import DEFAULT_SHAPES
from mmeffvit.analysis.complexity.forward import data_samples
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.datasets import eval_shape
from mmeffvit.config.load import load_config
from mmeffvit.deploy import fuse
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from mmeffvit.deploy.graphs import make_graph

from . import ort
from .part import Cases, Rows, Settings, measured, milliseconds, ratio, table
from .store import Row, rounded

TITLE = 'Full detectors and segmentors'
SECONDS = 12.0
CONFIGS = (
    'maskrcnn_swiftformer_xs_shapes',
    'retinanet_swiftformer_l1',
    'ssdlite_mobilevitv2_100',
    'pspnet_mobilevitv2_050_ade20k',
)
CANDIDATES = ('eager', 'fused', 'ONNX')
BACKGROUND = 4.0  # logit: with equal ones for all classes, every box of SSDLite would be kept


def cases(settings: Settings) -> Cases:
    names = CONFIGS[:1] if settings.quick else CONFIGS
    return {name: partial(measure, name, settings) for name in names}


def measure(name: str, settings: Settings) -> Row:
    config = load_config(name)
    size, scope = test_size(config), config.default_scope
    with isolated(scope), tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model = untrained(config)
        image = torch.randint(0, 256, (3, *size), dtype=torch.uint8)
        path = export_graph(make_graph(model), Path(folder, 'model.onnx'), ExportOptions(size, 1))
        # mmdet and mmseg read images as BGR; the exported graph takes RGB
        run_onnx = ort.runner(path, image.flip(0)[None].float())
        runs = {
            'eager': partial(predict, model, image),
            'fused': partial(predict, fuse(model), image),
            'ONNX': run_onnx,
        }
        objects = {name: count_objects(run()) for name, run in runs.items()}  # warm-up
        samples = settings.time(runs, SECONDS, min_rounds=3, warm_up=0)
    return dict(size=size, objects=objects, seconds=rounded(samples))


def test_size(config: Config) -> tuple[int, ...]:
    """Height and width of its test images, in pixels."""
    return tuple(eval_shape(config) or DEFAULT_SHAPES[config.default_scope])


def untrained(config: Config) -> nn.Module:
    """The model of a config in eval mode, with initial weights that find few boxes."""
    with isolated(config.default_scope):
        model = build_model(own_model_config(config))
        model.init_weights()
    head = getattr(model, 'bbox_head', None)
    if type(head).__name__ == 'SSDLiteHead':
        for predictor in head.predictors:
            # every anchor has 4 numbers of its box, then a logit per class; background is the last
            bias = predictor[-1].bias
            nn.init.constant_(bias.view(-1, 4 + head.cls_out_channels)[:, -1], BACKGROUND)
    return model.eval()


def predict(model: nn.Module, image: Tensor) -> Any:
    """Run ``test_step`` on one image, as mmengine's test loop does."""
    samples = data_samples(tuple(image.shape[1:]), type(model))
    return model.test_step(dict(inputs=[image], data_samples=samples))


def count_objects(results: Any) -> int | None:
    """How many objects were found; None for a label map."""
    first = results[0]
    if hasattr(first, 'pred_sem_seg'):
        return None
    if hasattr(first, 'pred_instances'):
        return len(first.pred_instances)
    labels = [
        r for r in results if isinstance(r, Tensor) and r.ndim == 2 and not r.is_floating_point()
    ]
    return int((labels[0] >= 0).sum()) if labels else None


def render(rows: Rows) -> list[str]:
    heading = ['config', 'image', *(f'{name}, ms' for name in CANDIDATES)]
    heading += ['fused : eager', 'ONNX : eager', 'ONNX : fused', 'objects']
    lines = []
    for key, row in measured(rows).items():
        cells = [key, '{} x {}'.format(*row['size'])]
        cells += [milliseconds(row['seconds'][name]) for name in CANDIDATES]
        cells += [ratio(row, 'fused', 'eager'), ratio(row, 'ONNX', 'eager')]
        found = [row['objects'][name] for name in CANDIDATES]
        objects = '' if None in found else ', '.join(map(str, found))
        lines.append([*cells, ratio(row, 'ONNX', 'fused'), objects])
    text = (
        'One image of noise, initial weights. Eager: test_step as trained; fused: the same after '
        'mmeffvit.deploy.fuse; ONNX: the exported file, including post-processing. Objects: the '
        'number of detections of each.'
    )
    return [text, '', *table(heading, lines)]
