"""A training step, forward and backward: time and peak memory, ours and timm's."""

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from .memory import HOW, peak_bytes
from .part import Cases, Rows, Settings, Target, at_least, measured, milliseconds, ratio, table
from .peers import QUICK, VARIANTS, Variant, build_pair
from .store import Row, rounded
from .timing import waiting_for

TITLE = 'Training step'
DEVICES = ('cpu', 'cuda')
# batch size and side in pixels; None for the side of the training images
BATCHES = ((8, None), (2, 512))
SECONDS = 8.0
MIB = 2**20
SAVING = 'ours with_cp'  # blocks are recomputed in backward
OURS = ('ours', SAVING)
MEMORY = ('timm', *OURS)


def cases(settings: Settings) -> Cases:
    batches = ((2, None),) if settings.quick else BATCHES
    return {
        f'{v} {number} x {side or v.side}': partial(measure, v, number, side or v.side, settings)
        for v in (QUICK if settings.quick else VARIANTS)
        for number, side in batches
    }


def measure(variant: Variant, number: int, side: int, settings: Settings) -> Row:
    x = torch.randn(number, 3, side, side).to(settings.device)
    ours, theirs = build_pair(variant, (side, side))
    steps = {
        name: waiting_for(settings.device, training_step(model.to(settings.device), x))
        for name, model in (('timm', theirs), ('ours', ours))
    }
    samples = settings.time(steps, SECONDS, min_rounds=3, warm_up=1)
    peaks = {name: peak_bytes(step, settings.device) for name, step in steps.items()}
    for stage in ours.stages:
        stage.with_cp = True
    peaks[SAVING] = peak_bytes(steps['ours'], settings.device)
    return dict(
        model=str(variant), batch=number, side=side, seconds=rounded(samples), peak_bytes=peaks
    )


def training_step(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """Forward and backward of the sum of all maps, with gradients reset to None."""
    model.train()

    def step() -> None:
        model.zero_grad(set_to_none=True)
        sum(m.sum() for m in model(x)).backward()
        model.zero_grad(set_to_none=True)

    return step


def memory_share(row: Row, name: str) -> float:
    return row['peak_bytes'][name] / row['peak_bytes']['timm']


def render(rows: Rows) -> list[str]:
    heading = ['model', 'images', 'timm, ms', 'ours, ms', 'ours : timm']
    heading += [*(f'{name}, MiB' for name in MEMORY), *(f'memory, {name} / timm' for name in OURS)]
    lines = []
    for row in measured(rows).values():
        cells = [row['model'], f'{row["batch"]} of {row["side"]} x {row["side"]}']
        cells += [milliseconds(row['seconds'][name]) for name in ('timm', 'ours')]
        cells += [ratio(row, 'ours', 'timm')]
        cells += [f'{row["peak_bytes"][name] / MIB:.1f}' for name in MEMORY]
        lines.append([*cells, *(f'{memory_share(row, name):.3f}' for name in OURS)])
    return [*table(heading, lines), '', f'Memory is {HOW}']


def targets(rows: Rows) -> list[Target]:
    rows = measured(rows)
    speed = {key: ratio(row, 'ours', 'timm').median for key, row in rows.items()}
    found = at_least('training step, ours : timm', speed, 1.0)
    for name, most in zip(OURS, (1.01, 0.6), strict=True):
        if rows:
            share = statistics.geometric_mean(memory_share(row, name) for row in rows.values())
            text = f'peak memory of a step, {name} / timm, geometric mean at most {most}'
            found.append(Target(text, f'{share:.3f}', share <= most))
    return found
