"""The rate of matrix products and convolutions in ONNX Runtime: the peak of this machine."""

import statistics
from collections.abc import Callable
from functools import partial

from . import ort
from .part import Cases, Rows, Settings, measured, milliseconds, table
from .store import Row, rounded

TITLE = 'Rates of single operators in ONNX Runtime'
SECONDS = 3.0


# builds a function that runs an operator; its MACs
Operator = tuple[Callable[[], Callable[[], object]], int]


def matmul(rows: int, inner: int, columns: int) -> Operator:
    return partial(ort.matmul, rows, inner, columns), rows * inner * columns


def conv(channels: int, out_channels: int, side: int, kernel: int, groups: int = 1) -> Operator:
    build = partial(ort.conv, channels, out_channels, side, kernel, groups)
    return build, side**2 * kernel**2 * channels // groups * out_channels


REFERENCE = 'product 1024 x 1024 x 1024'
# shapes of the backbones at 224 x 224
OPERATORS = {
    REFERENCE: matmul(1024, 1024, 1024),
    'product 3136 x 48 x 192': matmul(3136, 48, 192),
    'product 196 x 192 x 768': matmul(196, 192, 768),
    'convolution 1 x 1, 48 to 192 channels, 56 x 56': conv(48, 192, 56, 1),
    'convolution 1 x 1, 192 to 768 channels, 14 x 14': conv(192, 768, 14, 1),
    'convolution 3 x 3, 64 to 64 channels, 56 x 56': conv(64, 64, 56, 3),
    'depth-wise convolution 3 x 3, 192 channels, 28 x 28': conv(192, 192, 28, 3, groups=192),
}


def cases(settings: Settings) -> Cases:
    return {'operators': partial(measure, settings)}


def measure(settings: Settings) -> Row:
    runs = {name: build() for name, (build, _) in OPERATORS.items()}
    samples = settings.time(runs, SECONDS, min_rounds=10)
    macs = {name: macs for name, (_, macs) in OPERATORS.items()}
    return dict(macs=macs, seconds=rounded(samples))


def render(rows: Rows) -> list[str]:
    lines = []
    for row in measured(rows).values():
        rates = {
            name: 2 * row['macs'][name] / statistics.median(times)
            for name, times in row['seconds'].items()
        }
        for name, times in row['seconds'].items():
            share = rates[name] / rates[REFERENCE]
            lines.append([name, milliseconds(times), f'{rates[name] / 1e9:.1f}', f'{share:.0%}'])
    return table(['operator', 'ms', 'GFLOP/s', 'share of the first'], lines)
