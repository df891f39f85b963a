"""The attention layers that the papers compare: time, memory and operators.

By the number of tokens, and for layers with heads by the channels of a head.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from mmeffvit.models.layers.choice import choose
from mmeffvit.models.mobile_attention.mixers import MIXERS
from mmeffvit.models.mobilevitv2.backbone import ATTENTIONS as MOBILEVITV2
from mmeffvit.models.mobilevitv2.backbone import make_encoder
from mmeffvit.models.shvit.ablations import PartialMultiHeadAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention
from mmeffvit.models.swiftformer.backbone import ATTENTIONS as SWIFTFORMER

from .attention import ATTENDED, CHANNELS
from .memory import HOW, peak_bytes
from .part import Cases, Rows, Settings, digits, measured, milliseconds, table
from .store import Row, rounded
from .timing import waiting_for

TITLE = 'Attention layers that the papers compare'
DEVICES = ('cpu', 'cuda')
WIDTH = 256  # of queries, keys and values of the token mixers
HEADS = 8  # of mixers of other papers, as in EfficientFormerV2
SIDES = (8, 16, 32, 64)  # of square maps: 64 to 4096 tokens
HEAD_CHANNELS = (1, 2, 4, 8, 16, 32, 64)
HEAD_SIDE = 16
SECONDS = 8.0
OPERATORS = 4  # the slowest, listed in the report
PROFILED = 10  # runs whose operators are summed, since a single one may be interrupted
MIXED, SWEEP = 'Mobile-Attention', 'Mobile-Attention by head'
Layers = Mapping[str, Callable[[], nn.Module]]


def mixers(**own: int) -> Layers:
    """Token mixers on maps of queries, keys and values, which have no projections."""
    return {
        name: partial(choose(dict(type=name, **own), MIXERS), WIDTH, WIDTH, HEADS)
        for name in MIXERS
        if name != 'hydra' or not own  # its heads have one channel
    }


def encoder(name: str, **own: float) -> Callable[[], nn.Module]:
    """Attention and feed-forward of MobileViTv2."""
    return lambda: make_encoder(CHANNELS, MOBILEVITV2[name](CHANNELS, **own))


LATENTS = MOBILEVITV2['latents']
GROUPS: dict[str, Layers] = {
    MIXED: mixers(),
    'SwiftFormer': {name: partial(cls, CHANNELS) for name, cls in SWIFTFORMER.items()},
    'MobileViTv2': {
        **{
            name: partial(cls, CHANNELS, patch_size=2)
            for name, cls in MOBILEVITV2.items()
            if name != 'sampled'
        },
        '4 latents': partial(LATENTS, CHANNELS, 4),
        'encoder': encoder('separable'),
        'encoder of 2 of 4 pixels': encoder('sampled', pixels=2),
        'encoder of half of the patches': encoder('sampled', patches=0.5),
    },
    'SHViT': {
        'single head, 1 / 4.67': partial(SingleHeadSelfAttention, CHANNELS, ATTENDED),
        'single head, 1 / 2': partial(SingleHeadSelfAttention, CHANNELS, CHANNELS // 2),
        'single head, 1': partial(SingleHeadSelfAttention, CHANNELS, CHANNELS),
        '4 heads, 1 / 4.67': partial(PartialMultiHeadAttention, CHANNELS, ATTENDED),
        '4 heads, 1': partial(PartialMultiHeadAttention, CHANNELS, CHANNELS),
    },
}


def cases(settings: Settings) -> Cases:
    sides, head_side = ((4,), 4) if settings.quick else (SIDES, HEAD_SIDE)
    head_channels = HEAD_CHANNELS[3:4] if settings.quick else HEAD_CHANNELS
    by_tokens = {
        f'{group}, {side**2} tokens': partial(measure, group, layers, side, settings)
        for group, layers in GROUPS.items()
        for side in sides
    }
    by_head = {
        f'{SWEEP}, {d} channels': partial(
            measure, SWEEP, mixers(head_channels=d), head_side, settings, d
        )
        for d in head_channels
    }
    return by_tokens | by_head


def measure(
    group: str, layers: Layers, side: int, settings: Settings, head_channels: int | None = None
) -> Row:
    torch.manual_seed(0)
    device = settings.device
    inputs = make_inputs(group, side, device)
    runs = {
        name: waiting_for(device, partial(build().eval().to(device), *inputs))
        for name, build in layers.items()
    }
    with torch.inference_mode():
        samples = settings.time(runs, SECONDS, min_rounds=3)
        peaks = {name: peak_bytes(run, device) for name, run in runs.items()}
        shares = {name: operator_shares(run, device) for name, run in runs.items()}
    return dict(
        group=group,
        tokens=side**2,
        head_channels=head_channels,
        seconds=rounded(samples),
        bytes=peaks,
        operators=shares,
    )


def make_inputs(group: str, side: int, device: str) -> tuple[Tensor, ...]:
    """Queries, keys and values for token mixers, otherwise one map."""
    if group in (MIXED, SWEEP):
        return tuple(torch.randn(3, 1, WIDTH, side, side, device=device))
    return (torch.randn(1, CHANNELS, side, side, device=device),)


def operator_shares(run: Callable[[], object], device: str) -> dict[str, float]:
    """The share of each operator in the time of ``run``, the slowest first."""
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == 'cuda')
    with profile(activities=kinds) as profiler:
        for _ in range(PROFILED):
            run()
    attribute = 'self_cpu_time_total' if device == 'cpu' else 'self_device_time_total'
    times = {event.key: getattr(event, attribute) for event in profiler.key_averages()}
    total = sum(times.values())
    slowest = sorted(times, key=times.__getitem__, reverse=True)[:OPERATORS]
    return {name.removeprefix('aten::'): round(times[name] / total, 3) for name in slowest}


def render(rows: Rows) -> list[str]:
    by_group: dict[str, list[Row]] = {}
    for row in measured(rows).values():
        by_group.setdefault(row['group'], []).append(row)
    lines = [
        f'Token mixers get queries, keys and values of {WIDTH} channels, other layers a map of '
        f'{CHANNELS} and include their projections. Median and minimum in ms, then the peak '
        f'memory in MiB. Memory: {HOW}'
    ]
    for group, found in by_group.items():
        lines += ['', f'### {group}', '', *group_table(found)]
    return lines


def group_table(rows: list[Row]) -> list[str]:
    """A line per layer, a column per row, and the slowest operators in the last row."""
    heading = ['layer', *map(column, rows), f'operators, {column(rows[-1])}']
    lines = []
    for name in dict.fromkeys(name for row in rows for name in row['seconds']):
        cells = [
            f'{milliseconds(row["seconds"][name])}, {digits(row["bytes"][name] / 2**20)}'
            if name in row['seconds']
            else ''
            for row in rows
        ]
        shares = rows[-1]['operators'].get(name, {})
        slowest = ', '.join(f'{operator} {share:.0%}' for operator, share in shares.items())
        lines.append([name, *cells, slowest])
    return table(heading, lines)


def column(row: Row) -> str:
    if row['head_channels'] is None:
        return f'{row["tokens"]} tokens'
    return f'{row["head_channels"]} channels in a head'
