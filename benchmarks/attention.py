"""Single attention layers, from a thousand to 64 thousand tokens."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from mmeffvit.models.efficientformerv2.attention import LocalGlobalAttention, TalkingHeadsAttention
from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention

from .part import Cases, Rows, Settings, Target, measured, milliseconds, ratio, table
from .store import Row, rounded
from .timing import waiting_for

TITLE = 'Single attention layers'
DEVICES = ('cpu', 'cuda')
CHANNELS = 128
ATTENDED = 28  # SHViT's ratio of attended channels, 1 / 4.67
WIDTHS = (256, 1024)  # of queries and keys and of values in EfficientFormerV2
HEADS = 8
SIDES = (32, 64, 128, 256)  # of square maps: 1k, 4k, 16k and 64k tokens
SECONDS = 12.0
MAX_SCORES = 2**31  # bytes of one score matrix; several are alive at once
MAX_OPERATIONS = 2e11  # of attention; takes a few seconds on a CPU thread
DOT_PRODUCT = 'scaled dot product'
HEAD_CHANNELS = 32  # in the dot product


@dataclass(frozen=True)
class Layer:
    """An attention layer and its quadratic cost."""

    build: Callable[[int], nn.Module]  # for a square map with this side
    linear: bool = True  # whether its cost is meant to be
    heads: int = 0  # stored score matrices, tokens x tokens each
    macs: int = 0  # per pair of tokens, if no score matrix is stored

    def skip_reason(self, tokens: int, device: str) -> str | None:
        """Why it is not run on this number of tokens, or None."""
        stored = 4 * self.heads * tokens**2
        if stored > MAX_SCORES:
            return f'its scores take {stored / 2**30:.0f} GiB'
        operations = 2 * self.macs * tokens**2
        if device == 'cpu' and operations > MAX_OPERATIONS:
            return f'it takes {operations / 1e12:.1f} T operations'
        return None


# fmt: off
LAYERS = {
    'separable (MobileViTv2)':     Layer(lambda side: SeparableSelfAttention(CHANNELS)),
    'additive (SwiftFormer)':      Layer(lambda side: EfficientAdditiveAttention(CHANNELS)),
    'mobile (MobiAtt)':            Layer(lambda side: LocalGlobalAttention(
        CHANNELS, *WIDTHS, MobileAttention(*WIDTHS, HEADS))),
    'talking heads (EFv2)':        Layer(lambda side: LocalGlobalAttention(
        CHANNELS, *WIDTHS, TalkingHeadsAttention(HEADS, (side, side))), linear=False, heads=HEADS),
    'single head (SHViT)':         Layer(lambda side: SingleHeadSelfAttention(
        CHANNELS, ATTENDED), linear=False, heads=1),
    DOT_PRODUCT:                   Layer(lambda side: SelfAttention(
        CHANNELS, CHANNELS // HEAD_CHANNELS), linear=False, macs=2 * CHANNELS),
}
# fmt: on


def cases(settings: Settings) -> Cases:
    sides = (4, 8) if settings.quick else SIDES
    return {f'{side**2} tokens': partial(measure, side, settings) for side in sides}


def measure(side: int, settings: Settings) -> Row:
    torch.manual_seed(0)
    tokens = side**2
    skipped = {name: layer.skip_reason(tokens, settings.device) for name, layer in LAYERS.items()}
    skipped = {name: reason for name, reason in skipped.items() if reason}
    x = torch.randn(1, CHANNELS, side, side, device=settings.device)
    runs = {
        name: waiting_for(settings.device, partial(layer.build(side).eval().to(settings.device), x))
        for name, layer in LAYERS.items()
        if name not in skipped
    }
    with torch.inference_mode():
        samples = settings.time(runs, SECONDS, min_rounds=3, warm_up=1)
    return dict(tokens=tokens, skipped=skipped, seconds=rounded(samples))


def exponents(rows: Rows) -> dict[str, tuple[float, int]]:
    """The exponent of time over tokens of layers that ran on two sizes, and the largest size."""
    found = {}
    for name in LAYERS:
        ran = [row for row in rows.values() if name in row['seconds']]
        tokens = [row['tokens'] for row in ran]
        times = [statistics.median(row['seconds'][name]) for row in ran]
        if len(ran) > 1:
            found[name] = np.polyfit(np.log(tokens), np.log(times), 1)[0], max(tokens)
    return found


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    fitted = exponents(rows)
    heading = ['layer', *(f'{row["tokens"]} tokens, ms' for row in rows.values()), 'exponent']
    lines = []
    for name in LAYERS:
        cells = [cell(name, row) for row in rows.values()]
        value, most = fitted.get(name, (None, 0))
        lines.append([name, *cells, '' if value is None else f'{value:.2f} up to {most}'])
    notes = [
        f'- {name} at {row["tokens"]} tokens was not run: {reason}'
        for row in rows.values()
        for name, reason in row['skipped'].items()
    ]
    text = (
        f'One map of {CHANNELS} channels; the layers include their projections, those of '
        'EfficientFormerV2 also the convolution on the values. In parentheses the minimum, then '
        "the speedup over torch's scaled_dot_product_attention with projections. Exponents are "
        'least-squares fits of log time over log tokens.'
    )
    return [text, '', *table(heading, lines), *([''] if notes else []), *notes]


def cell(name: str, row: Row) -> str:
    """Median and minimum, then the ratio to the dot product."""
    if name not in row['seconds']:
        return 'not run'
    text = milliseconds(row['seconds'][name])
    if name == DOT_PRODUCT or DOT_PRODUCT not in row['seconds']:
        return text
    return f'{text}, {ratio(row, name, DOT_PRODUCT).median:.2f} x'


def targets(rows: Rows) -> list[Target]:
    return [
        Target(f'exponent of {name} at most 1.05', f'{value:.3f}', value <= 1.05)
        for name, (value, _) in exponents(measured(rows)).items()
        if LAYERS[name].linear
    ]
