"""The papers' headline speed ratios, measured here between our models."""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from mmeffvit.deploy import fuse

from . import ort
from .part import Cases, Rows, Settings, measured, milliseconds, ratio, table
from .peers import Variant, build_ours, randomize
from .store import Row, rounded

TITLE = "The papers' headline ratios"
SECONDS = 4.0


@dataclass(frozen=True)
class Headline:
    """The speedup of one model over another."""

    fast: Variant  # the model proposed by the paper
    slow: Variant  # its baseline
    published: str = ''  # the paper's ratio and how it was measured, if there is one
    side: int | None = None  # pixels of the square image; None for that of the training images
    batch: int = 1
    mobile: bool = False  # Mobile-Attention in the first model

    def __str__(self) -> str:
        batch = f', batch {self.batch}' if self.batch > 1 else ''
        return f'{self.fast}{"_mobile" * self.mobile} : {self.slow}{batch}'


SHVIT = 'arXiv:2401.16456: 8.1 on a CPU with ONNX (5.1 eager), 3.3 on a GPU, 2.4 on an iPhone 12'
MOBIATT = 'Mobile Attention (ICML 2024), table 3: {}, backbones, Core ML on an iPhone 12'
TABLE_1 = 'Mobile Attention (ICML 2024), table 1: {}, Core ML on an iPhone 12'
SWIFTFORMER = 'arXiv:2303.15446, table 2: {}, Core ML on an iPhone 14'
mobilevitv2 = partial(Variant, 'mobilevitv2', side=256)
swiftformer = partial(Variant, 'swiftformer')
efficientformerv2 = partial(Variant, 'efficientformerv2')
deit, pvtv2 = partial(Variant, 'deit'), partial(Variant, 'pvtv2')
# fmt: off
HEADLINES = (
    Headline(Variant('shvit', 's4', 256), mobilevitv2('100'), SHVIT),
    # the paper uses batch size 16 on a CPU
    Headline(Variant('shvit', 's4', 256), mobilevitv2('100'), SHVIT, batch=16),
    Headline(swiftformer('s'), mobilevitv2('100'), SWIFTFORMER.format('1.7 ms / 0.8 ms = 2.1')),
    Headline(swiftformer('l1'), mobilevitv2('150'), SWIFTFORMER.format('3.4 ms / 1.1 ms = 3.1')),
    Headline(swiftformer('xs'), efficientformerv2('s0')),
    Headline(swiftformer('s'), efficientformerv2('s1')),
    Headline(swiftformer('l1'), efficientformerv2('s2')),
    Headline(efficientformerv2('s2'), efficientformerv2('s2'),
             MOBIATT.format('6.5 ms / 4.7 ms = 1.38'), side=512, mobile=True),
    Headline(efficientformerv2('l'), efficientformerv2('l'),
             MOBIATT.format('10.3 ms / 7.7 ms = 1.34'), side=512, mobile=True),
    Headline(efficientformerv2('s0'), efficientformerv2('s0'),
             TABLE_1.format('0.9 ms / 0.7 ms = 1.29'), mobile=True),
    Headline(deit('t'), deit('t'), TABLE_1.format('4.5 ms / 3.8 ms = 1.18'), mobile=True),
    Headline(deit('s'), deit('s'), TABLE_1.format('9.0 ms / 7.2 ms = 1.25'), mobile=True),
    Headline(deit('b'), deit('b'), TABLE_1.format('18.2 ms / 13.3 ms = 1.37'), mobile=True),
    Headline(pvtv2('b0'), pvtv2('b0'), TABLE_1.format('78.4 ms / 57.3 ms = 1.37'), mobile=True),
    Headline(pvtv2('b2'), pvtv2('b2'), TABLE_1.format('101.0 ms / 65.6 ms = 1.54'), mobile=True),
    Headline(pvtv2('b3'), pvtv2('b3'), TABLE_1.format('114.5 ms / 89.1 ms = 1.29'), mobile=True),
)
# fmt: on


def cases(settings: Settings) -> Cases:
    chosen = HEADLINES[4:5] if settings.quick else HEADLINES
    return {str(h): partial(measure, h, settings) for h in chosen}


def measure(headline: Headline, settings: Settings) -> Row:
    torch.manual_seed(0)
    runs = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name, variant in (('fast', headline.fast), ('slow', headline.slow)):
            side = headline.side or variant.side
            mobile = mobile_options(variant) if headline.mobile and name == 'fast' else {}
            model = fuse(randomize(build_ours(variant, (side, side), **mobile)))
            x = torch.randn(headline.batch, 3, side, side)
            path = ort.export(model, tuple(x.shape), Path(folder, f'{name}.onnx'))
            runs[f'{name} eager'] = partial(model, x)
            runs[f'{name} ONNX'] = ort.runner(path, x)
        samples = settings.time(runs, SECONDS)
    return dict(published=headline.published, seconds=rounded(samples))


def mobile_options(variant: Variant) -> dict[str, object]:
    """Mobile-Attention in a variant; in PVTv2 in the stages of PVTv2MobiAtt."""
    stages = (2, 3) if variant.arch == 'b0' else (0, 1, 2, 3)
    own = dict(mobile_stages=stages) if variant.family == 'pvtv2' else {}
    return dict(attention='mobile', **own)


def render(rows: Rows) -> list[str]:
    heading = ['faster : slower', 'eager, fused', 'ONNX Runtime', 'ONNX Runtime, ms', 'published']
    lines = []
    for key, row in measured(rows).items():
        cells = [ratio(row, f'fast {how}', f'slow {how}') for how in ('eager', 'ONNX')]
        times = [milliseconds(row['seconds'][f'{name} ONNX']) for name in ('fast', 'slow')]
        lines.append([key, *cells, ' : '.join(times), row['published'] or 'no ratio'])
    text = (
        'Backbones without a classifier at the size of their training images; those of table 3 of '
        'Mobile-Attention at 512 x 512. Published ratios are those of classifiers on other '
        "hardware, in that table of backbones. SwiftFormer's paper does not compare with "
        'EfficientFormerV2.'
    )
    return [text, '', *table(heading, lines)]
