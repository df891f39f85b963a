"""The attention units of MobileViTv2's figure 1: operators with their memory, and time by tokens.

One layer, one thread: 512 channels, 8 heads, 256 tokens and 256 projected ones, as in the paper.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobilevitv2.ablations import LinformerAttention
from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention

from .part import Cases, Rows, Settings, digits, measured, milliseconds, table
from .store import Row, rounded

TITLE = "Units of MobileViTv2's figure 1"
CHANNELS, HEADS, PROJECTED = 512, 8, 256
PRINTED_SIDE = 16  # 256 tokens
SIDES = (8, 16, 32, 64)  # the paper draws several numbers of tokens and prints none
SECONDS = 8.0
OPERATORS = 5
PROFILED = 10  # runs whose operators are averaged
UNITS: dict[str, Callable[[int], nn.Module]] = {
    'Transformer': lambda _: SelfAttention(CHANNELS, HEADS),
    'Linformer': lambda side: LinformerAttention(
        CHANNELS, HEADS, projected=PROJECTED, grid=(side, side)
    ),
    'separable': lambda _: SeparableSelfAttention(CHANNELS, 1),
}
# milliseconds of the unit at 256 tokens, on a core of 2.4 GHz
PUBLISHED = {'Transformer': 12.3, 'Linformer': 13.8, 'separable': 7.7}


def cases(settings: Settings) -> Cases:
    sides = (4,) if settings.quick else SIDES
    return {f'{side**2} tokens': partial(measure, side, settings) for side in sides}


def measure(side: int, settings: Settings) -> Row:
    torch.manual_seed(0)
    x = torch.randn(1, CHANNELS, side, side)
    runs = {name: partial(build(side).eval(), x) for name, build in UNITS.items()}
    with torch.inference_mode():
        samples = settings.time(runs, SECONDS, min_rounds=3)
        operators = {name: slowest_operators(run) for name, run in runs.items()}
    return dict(tokens=side**2, seconds=rounded(samples), operators=operators)


def slowest_operators(run: Callable[[], object]) -> dict[str, list[float]]:
    """The slowest operators of a run: milliseconds, and MB that they allocate."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(PROFILED):
            run()
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    return {
        event.key.removeprefix('aten::'): [
            round(event.self_cpu_time_total / PROFILED / 1e3, 3),
            round(max(event.self_cpu_memory_usage, 0) / PROFILED / 1e6, 3),
        ]
        for event in [event for event in events if event.key.startswith('aten::')][:OPERATORS]
    }


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    heading = ['unit', *rows, 'paper, 256 tokens']
    lines = [
        [name, *(milliseconds(row['seconds'][name]) for row in rows.values()), f'{paper} ms']
        for name, paper in PUBLISHED.items()
    ]
    text = (
        f'{CHANNELS} channels, {HEADS} heads, {PROJECTED} projected tokens, one thread. Median and '
        'minimum in ms; the paper measures a core of 2.4 GHz. Then the slowest operators of '
        f'{PRINTED_SIDE**2} tokens: ms, and MB that they allocate.'
    )
    found = next((row for row in rows.values() if row['tokens'] == PRINTED_SIDE**2), None)
    if found is None:
        return [text, '', *table(heading, lines)]
    operators = [
        [name, *(f'{o}: {digits(ms)} ms, {mb:.2f} MB' for o, (ms, mb) in each.items())]
        for name, each in found['operators'].items()
    ]
    names = ['unit', *map(str, range(1, OPERATORS + 1))]
    return [text, '', *table(heading, lines), '', *table(names, operators)]
