"""Backbones compiled by torch with frozen weights, compared with exported ones.

Compiling takes a minute or more, so there is one variant per family, at its training size.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from mmeffvit.deploy import fuse

from . import ort
from .part import Cases, Rows, Settings, measured, milliseconds, ratio, table
from .peers import QUICK, SMALL, Variant, assert_same_maps, build_pair
from .store import Row, rounded

TITLE = 'Compiled backbones'
SECONDS = 5.0
CANDIDATES = ('timm eager', 'timm compiled', 'ours compiled', 'ours ONNX')


def cases(settings: Settings) -> Cases:
    chosen = QUICK if settings.quick else SMALL
    return {f'{v} {v.side}x{v.side}': partial(measure, v, settings) for v in chosen}


def measure(variant: Variant, settings: Settings) -> Row:
    size = (variant.side, variant.side)
    ours, theirs = build_pair(variant, size)
    x = torch.randn(1, 3, *size)
    torch._dynamo.reset()  # graphs of the previous row would count as recompilations
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = ort.export_ours(ours, size, Path(folder, 'ours.onnx'))
        runs = {
            'timm eager': partial(theirs, x),
            'timm compiled': partial(freeze(theirs), x),
            'ours compiled': partial(freeze(fuse(ours)), x),
            'ours ONNX': ort.runner(path, x),
        }
        expected = theirs(x)
        for name, run in runs.items():
            assert_same_maps(run(), expected, f'{variant}, {name}')
        samples = settings.time(runs, SECONDS)
    return dict(model=str(variant), size=size, seconds=rounded(samples))


def freeze(model: nn.Module) -> Callable[[Tensor], object]:
    """The model compiled by inductor with frozen weights, without autotuning."""
    return torch.compile(model, options={'freezing': True})


def render(rows: Rows) -> list[str]:
    pairs = (
        ('ours compiled', 'timm compiled'),
        ('ours ONNX', 'ours compiled'),
        ('ours ONNX', 'timm compiled'),
        ('timm compiled', 'timm eager'),
    )
    heading = ['model', 'image', *(f'{name}, ms' for name in CANDIDATES)]
    heading += [f'{a} : {b}' for a, b in pairs]
    lines = []
    for row in measured(rows).values():
        cells = [row['model'], '{} x {}'.format(*row['size'])]
        cells += [milliseconds(row['seconds'][name]) for name in CANDIDATES]
        lines.append([*cells, *(ratio(row, a, b) for a, b in pairs)])
    return [
        'torch.compile with freezing, batch 1; ours is fused first.',
        '',
        *table(heading, lines),
    ]
