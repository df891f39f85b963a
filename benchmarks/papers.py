"""Full models of the papers' tables on speed, up to the outputs of their heads.

Eager models with their initial weights, fused. Published frames per second are of GPUs, so only the
ratio of two models can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from mmeffvit.analysis.complexity.forward import data_samples
from mmeffvit.config.load import load_config
from mmeffvit.deploy import fuse

from .detectors import test_size, untrained
from .part import Cases, Rows, Settings, digits, measured, milliseconds, ratio, table
from .store import Row, rounded

TITLE = "The papers' full models"
SECONDS = 30.0
DETR = 'arXiv:2401.16456, table 9'
SSDLITE = 'arXiv:2206.02680, table 4, V100, batch 128'
SEGMENTATION = 'arXiv:2206.02680, table 3, V100, batch 32'


@dataclass(frozen=True)
class Pair:
    """Two models of one table."""

    fast: str  # config of the model with more frames per second
    slow: str  # config of the other
    published: tuple[float, float]  # frames per second of both
    source: str  # the table, and the device and batch size where it gives them
    batch: int = 1  # here

    def __str__(self) -> str:
        return f'{self.fast} : {self.slow}'


# fmt: off
PAIRS = (
    Pair('deformabledetr_resnet_50_single_head', 'deformabledetr_resnet_50', (31.4, 25.4), DETR),
    Pair('ssdlite_mobilevitv2_050', 'ssdlite_mobilevitv2_075', (2782, 1876), SSDLITE, batch=8),
    Pair('ssdlite_mobilevitv2_050', 'ssdlite_mobilevitv2_175', (2782, 780), SSDLITE, batch=8),
    Pair('pspnet_mobilevitv2_050_ade20k', 'pspnet_mobilevitv2_175_ade20k', (439, 114),
         SEGMENTATION, batch=2),
    Pair('deeplabv3_mobilevitv2_075_ade20k', 'deeplabv3_mobilevitv2_200_ade20k', (241, 90),
         SEGMENTATION, batch=2),
)
# fmt: on


def cases(settings: Settings) -> Cases:
    return {
        str(pair): partial(measure, pair, settings)
        for pair in (PAIRS[1:2] if settings.quick else PAIRS)
    }


def measure(pair: Pair, settings: Settings) -> Row:
    size = test_size(load_config(pair.fast))
    batch = 1 if settings.quick else pair.batch
    images = torch.randn(batch, 3, *size)
    runs = {'fast': network(pair.fast, images), 'slow': network(pair.slow, images)}
    with torch.no_grad():
        samples = settings.time(runs, SECONDS, min_rounds=5, warm_up=1)
    return dict(size=size, batch=batch, seconds=rounded(samples))


def network(name: str, images: Tensor) -> Callable[[], object]:
    """A function that runs a model on normalized images, without post-processing."""
    model = untrained(load_config(name))
    samples = data_samples(tuple(images.shape[2:]), type(model)) * len(images)
    return partial(fuse(model), images, samples, mode='tensor')


def published(pair: Pair) -> str:
    fast, slow = pair.published
    return f'{fast / slow:.2f} ({fast:g} : {slow:g} images/s; {pair.source})'


def render(rows: Rows) -> list[str]:
    pairs = {str(pair): pair for pair in PAIRS}
    heading = ['faster', 'slower', 'images', 'ms', 'images/s', 'here', 'published']
    lines = []
    for key, row in measured(rows).items():
        pair, batch = pairs[key], row['batch']
        times = [row['seconds'][name] for name in ('fast', 'slow')]
        rates = [digits(batch / sorted(each)[len(each) // 2]) for each in times]
        cells = [pair.fast, pair.slow, '{} of {} x {}'.format(batch, *row['size'])]
        cells += [' : '.join(map(milliseconds, times)), ' : '.join(rates)]
        lines.append([*cells, ratio(row, 'fast', 'slow'), published(pair)])
    text = 'Eager, fused, one thread, from normalized images to the outputs of the head.'
    return [text, '', *table(heading, lines)]
