"""Backbones in eager mode, batch 1: ours as trained and fused, timm's in both memory layouts."""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.deploy import fuse

from .part import Cases, Rows, Settings, Target, at_least, measured, milliseconds, ratio, table
from .peers import QUICK, VARIANTS, Variant, assert_same_maps, build_pair
from .store import Row, rounded
from .timing import waiting_for

TITLE = 'Backbones, eager'
DEVICES = ('cpu', 'cuda')
# in addition to the training size: height and width in pixels, seconds per row
LARGER = (((512, 512), 6.0), ((800, 1344), 12.0))
NATIVE_SECONDS = 4.0
LAST = ' channels_last'
CANDIDATES = ('timm', f'timm{LAST}', 'ours', 'fused')


def cases(settings: Settings) -> Cases:
    if settings.quick:
        return {
            key(v, (v.side,) * 2): partial(measure, v, (v.side,) * 2, NATIVE_SECONDS, settings)
            for v in QUICK
        }
    return {
        key(v, size): partial(measure, v, size, seconds, settings)
        for v in VARIANTS
        for size, seconds in (((v.side, v.side), NATIVE_SECONDS), *LARGER)
    }


def key(variant: Variant, size: tuple[int, int]) -> str:
    return f'{variant} {size[0]}x{size[1]}'


def measure(variant: Variant, size: tuple[int, int], seconds: float, settings: Settings) -> Row:
    ours, theirs = build_pair(variant, size)
    fused = fuse(ours)
    models = {'timm': theirs, f'timm{LAST}': channels_last(theirs), 'ours': ours, 'fused': fused}
    x = torch.randn(1, 3, *size)
    with torch.inference_mode():
        for name in set(models) - {'timm'}:
            assert_same_maps(models[name](x), theirs(x), f'{variant}, {name}')
        candidates = {
            name: waiting_for(
                settings.device, partial(model.to(settings.device), image(x, name, settings.device))
            )
            for name, model in models.items()
        }
        # some take seconds: one warm-up round, and at least three rounds
        samples = settings.time(candidates, seconds, min_rounds=3, warm_up=1)
    return dict(model=str(variant), size=size, seconds=rounded(samples))


def channels_last(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).to(memory_format=torch.channels_last)


def image(x: Tensor, candidate: str, device: str) -> Tensor:
    layout = torch.channels_last if candidate.endswith(LAST) else torch.contiguous_format
    return x.to(device, memory_format=layout)


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    heading = ['model', 'image', *(f'{name}, ms' for name in CANDIDATES)]
    heading += ['ours : timm', 'fused : timm', 'fused : timm in its faster layout']
    lines = []
    for row in rows.values():
        cells = [row['model'], '{} x {}'.format(*row['size'])]
        cells += [milliseconds(row['seconds'][name]) for name in CANDIDATES]
        cells += [ratio(row, name, 'timm') for name in ('ours', 'fused')]
        lines.append([*cells, f'{against_faster_layout(row, "fused"):.2f}'])
    note = '`ours` is as trained, `fused` is `mmeffvit.deploy.fuse(ours)`.'
    return [*table(heading, lines), '', note]


def against_faster_layout(row: Row, name: str) -> float:
    """Speedup over timm in its faster memory layout."""
    return ratio(row, name, 'timm').median / max(1.0, ratio(row, f'timm{LAST}', 'timm').median)


def targets(rows: Rows) -> list[Target]:
    rows = measured(rows)
    found = []
    for name, mean, each in (('ours', 1.05, 0.97), ('fused', 1.1, 1.0)):
        speeds = {key: ratio(row, name, 'timm').median for key, row in rows.items()}
        found += at_least(f'{name} : timm, eager', speeds, mean, each)
    return found
