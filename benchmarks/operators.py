"""What exported files of whole models spend their time on, in ONNX Runtime: one model per head."""

import tempfile
from functools import partial
from pathlib import Path

import torch

from mmeffvit.complexity.count import DEFAULT_SHAPES
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.datasets import eval_shape
from mmeffvit.config.load import load_config
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.onnx.export import ExportOptions, export_graph
from mmeffvit.deploy.profiling.layers import time_layers

from .detectors import suppress_untrained_scores
from .machine import ROOT
from .part import Cases, Rows, Settings, digits, measured, table
from .store import Row

TITLE = 'Operators of whole models'
DEVICES = ('cpu',)
SECONDS = 4.0
SHOWN = 4  # other operators
CONFIGS = (
    'rtmdet_swiftformer_xs',
    'maskrcnn_swiftformer_xs',
    'retinanet_shvit_s4',
    'ssdlite_mobilevitv2_050',
    'deformabledetr_shvit_s4_singlehead',
    'pspnet_mobilevitv2_050_ade20k',
    'deeplabv3_mobilevitv2_050_ade20k',
    'semfpn_shvit_s4_ade20k',
    'segformer_shvit_s1_ade20k',
)
LARGEST = 512  # pixels: larger images are not needed for shares
GROUPS = {
    'convolutions': ('Conv', 'FusedConv', 'ConvTranspose', 'NhwcFusedConv'),
    'matrix products': ('MatMul', 'FusedMatMul', 'Gemm', 'FusedGemm', 'Einsum'),
    'activations': ('Relu', 'Sigmoid', 'QuickGelu', 'Gelu', 'BiasGelu', 'FastGelu', 'Erf', 'Tanh',
                    'HardSigmoid', 'HardSwish', 'Softmax', 'Clip', 'LeakyRelu'),
}  # fmt: skip


def cases(settings: Settings) -> Cases:
    names = ['ssdlite_mobilevitv2_050'] if settings.quick else CONFIGS
    return {name: partial(measure, name, settings) for name in names}


def measure(name: str, settings: Settings) -> Row:
    config = load_config(ROOT / 'configs' / f'{name}.py')
    scope = config.default_scope
    size = tuple(min(side, LARGEST) for side in eval_shape(config) or DEFAULT_SHAPES[scope])
    with isolated(scope), tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model = build_model(own_model_config(config))
        model.init_weights()
        suppress_untrained_scores(model)
        path = export_graph(
            make_graph(model.eval()), Path(folder, 'model.onnx'), ExportOptions(size, 1)
        )
        images = torch.randint(0, 256, (1, 3, *size)).float().numpy()
        seconds = 0.1 if settings.quick else SECONDS
        times = time_layers(path, 'ONNX Runtime', images, 1, seconds)
    shares = {kind: float(f'{taken / times.total:.4f}') for kind, _, taken in times.kinds()}
    return dict(size=size, seconds={'run': [times.seconds]}, shares=shares)


def others(row: Row) -> dict[str, float]:
    """The shares of the operators of no group."""
    known = {kind for group in GROUPS.values() for kind in group}
    return {kind: share for kind, share in row['shares'].items() if kind not in known}


def render(rows: Rows) -> list[str]:
    heading = ['config', 'image', 'ms', *GROUPS, 'others', 'the largest of them']
    lines = []
    for name, row in measured(rows).items():
        cells = [name, '{} x {}'.format(*row['size']), digits(1e3 * row['seconds']['run'][0])]
        for kinds in GROUPS.values():
            cells.append(f'{sum(row["shares"].get(kind, 0.0) for kind in kinds):.0%}')
        rest = others(row)
        largest = [f'{kind} {share:.1%}' for kind, share in list(rest.items())[:SHOWN]]
        lines.append([*cells, f'{sum(rest.values()):.0%}', ', '.join(largest)])
    text = (
        "Shares of the operators' time by ONNX Runtime's profiler, one thread, initial weights, an "
        'image of noise, in whose cells every class can win, as for no trained model.'
    )
    return [text, '', *table(heading, lines)]
