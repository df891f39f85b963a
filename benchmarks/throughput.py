"""Images per second on a GPU: eager, compiled and mixed precision, ours and timm's."""

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.deploy import fuse

from .part import Cases, Rows, Settings, Target, at_least, measured, ratio, table
from .peers import QUICK, VARIANTS, Variant, build_pair
from .store import Row, rounded
from .timing import waiting_for

TITLE = 'Throughput on a GPU'
DEVICES = ('cuda',)
BATCHES = (1, 128)
SECONDS = 4.0
MODES = ('eager', 'eager AMP', 'compiled', 'compiled AMP')


def cases(settings: Settings) -> Cases:
    return {
        f'{v} batch {batch}': partial(measure, v, batch, settings)
        for v in (QUICK if settings.quick else VARIANTS)
        for batch in BATCHES
    }


def measure(variant: Variant, batch: int, settings: Settings) -> Row:
    ours, theirs = build_pair(variant, (variant.side, variant.side))
    x = torch.randn(batch, 3, variant.side, variant.side).to(settings.device)
    runs = {}
    with torch.no_grad():
        torch._dynamo.reset()  # graphs of the previous row would count as recompilations
        for name, model in (('timm', theirs), ('ours', fuse(ours))):
            model.to(settings.device)
            for mode in MODES:
                run = call(model, x, mode)
                runs[f'{name} {mode}'] = waiting_for(settings.device, run)
        samples = settings.time(runs, SECONDS, min_rounds=10, max_rounds=200)
    return dict(model=str(variant), batch=batch, seconds=rounded(samples))


def call(model: nn.Module, x: Tensor, mode: str) -> Callable[[], object]:
    compiled = torch.compile(model) if mode.startswith('compiled') else model
    amp = torch.autocast(x.device.type) if mode.endswith('AMP') else nullcontext()

    def run() -> object:
        with amp:
            return compiled(x)

    return run


def render(rows: Rows) -> list[str]:
    heading = ['model', 'batch', *(f'{name} {mode}' for mode in MODES for name in ('timm', 'ours'))]
    heading += [f'ours : timm, {mode}' for mode in MODES]
    lines = []
    for row in measured(rows).values():
        cells = [row['model'], row['batch']]
        for mode in MODES:
            for name in ('timm', 'ours'):
                seconds = statistics.median(row['seconds'][f'{name} {mode}'])
                cells.append(f'{row["batch"] / seconds:.0f}')
        cells += [ratio(row, f'ours {mode}', f'timm {mode}') for mode in MODES]
        lines.append(cells)
    return ['Images per second; ours is fused.', '', *table(heading, lines)]


def targets(rows: Rows) -> list[Target]:
    rows = measured(rows)
    eager = {key: ratio(row, 'ours eager', 'timm eager').median for key, row in rows.items()}
    return at_least('ours fused : timm on the GPU, eager', eager, 1.3, 1.0)
