"""int8 files of backbones, batch 1, one thread: both routes and our float file in ONNX Runtime.

Weights are random, and batch norms take their statistics from the images, which are smooth noise:
the signal-to-noise ratio is not that of a trained model, whose files are rejected below 15 dB.
"""

import tempfile
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from mmeffvit.deploy.agreement import fidelity
from mmeffvit.deploy.formats.onnx.write import export_backbone
from mmeffvit.deploy.int8.quantize import Quantization, quantize
from mmeffvit.deploy.profile.worker import Job
from mmeffvit.deploy.runtime.resizing import reader_of
from mmeffvit.errors import UserError
from mmeffvit.models import Backbone
from mmeffvit.utils.machine import has_int8_dot_product

from .backbones import key
from .part import Cases, Rows, Settings, Target, at_least, measured, milliseconds, ratio, table
from .peers import QUICK, VARIANTS, Variant, build_ours
from .store import Row, rounded
from .timing import time_files

TITLE = 'int8 files'
SECONDS = 3.0  # for each file
FLOAT = 'float ONNX'
ROUTES = ('.onnx', '.xml')
IMAGES = 24
LOWEST = 5.0  # dB; random weights of MobileViTv2 lose more than those of trained models
QUANTILE = 'In parentheses the 5 % quantile.'


def cases(settings: Settings) -> Cases:
    variants = QUICK if settings.quick else VARIANTS
    larger = () if settings.quick else ((512, 512),)
    return {
        key(v, size): partial(measure, v, size, settings)
        for v in variants
        for size in ((v.side, v.side), *larger)
    }


def measure(variant: Variant, size: tuple[int, int], settings: Settings) -> Row:
    torch.manual_seed(0)  # noise depends on the weights
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_images(folder / 'images', size)
        read = reader_of((1, 3, *size), {})
        backbone = with_statistics(build_ours(variant, size), paths[:8], read)
        model = folder / 'float.onnx'
        export_backbone(backbone, model, size, batch=1)
        files = {FLOAT: model}
        decibels: dict[str, float] = {}
        rejected: dict[str, str] = {}
        for suffix in ROUTES:
            try:
                done = to_int8(model, folder, suffix)
            except UserError as error:
                rejected[suffix] = str(error)
                continue
            files[suffix] = done.out
            decibels[suffix] = fidelity(done.chosen.measures)
        stored = folder / 'image.npy'
        np.save(stored, read(paths[-1]))
        job = partial(Job, images=stored, threads=1, clock=settings.clock)
        seconds = 0.05 if settings.quick else SECONDS
        samples = time_files({name: job(path) for name, path in files.items()}, seconds)
    return dict(
        model=str(variant),
        size=size,
        decibels=decibels,
        rejected=rejected,
        seconds=rounded(samples),
    )


def to_int8(model: Path, folder: Path, suffix: str) -> Quantization:
    return quantize(
        model,
        folder / 'images',
        folder / f'int8{suffix}',
        samples=16,
        min_agreement=LOWEST,
        allow_slower=True,
    )


def write_images(folder: Path, size: tuple[int, int]) -> list[Path]:
    """Smooth noise: neighboring values are correlated, as in real images."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    paths = [folder / f'{index:02d}.png' for index in range(IMAGES)]
    for path in paths:
        coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        fine = generator.normal(0, 12, (*size, 3))
        image = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC) + fine
        cv2.imwrite(str(path), image.clip(0, 255).astype(np.uint8))
    return paths


@torch.no_grad()
def with_statistics(backbone: Backbone, paths: list[Path], read: partial) -> Backbone:
    """The backbone in eval mode, with the images' statistics in its batch norms."""
    norms = [each for each in backbone.modules() if isinstance(each, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean
    images = torch.from_numpy(np.concatenate([read(path) for path in paths]))
    mean, std = (
        torch.tensor(v).view(3, 1, 1) for v in ((123.675, 116.28, 103.53), (58.4, 57.1, 57.4))
    )
    backbone.train()((images - mean) / std)
    return backbone.eval()


def best(row: Row) -> float:
    """The speedup of the fastest accepted int8 file over the float file."""
    files = [name for name in row['seconds'] if name != FLOAT]
    return max((ratio(row, name, FLOAT).median for name in files), default=1.0)


def render(rows: Rows) -> list[str]:
    heading = ['model', 'image', f'{FLOAT}, ms']
    for suffix in ROUTES:
        heading += [f'int8 {suffix}, ms', 'times faster', 'lowest dB of a map']
    lines = []
    for row in measured(rows).values():
        cells = [row['model'], '{} x {}'.format(*row['size'])]
        cells += [milliseconds(row['seconds'][FLOAT])]
        for suffix in ROUTES:
            if suffix in row['seconds']:
                speed = ratio(row, suffix, FLOAT).median
                decibels = f'{row["decibels"][suffix]:.0f}'
                cells += [milliseconds(row['seconds'][suffix]), f'{speed:.2f}', decibels]
            else:
                cells += ['rejected', '', '']
        lines.append(cells)
    text = 'Random weights, which lose more than trained ones; see docs/int8.md for accuracies.'
    return [*table(heading, lines), '', f'{QUANTILE} {text}']


def targets(rows: Rows) -> list[Target]:
    speeds = {name: best(row) for name, row in measured(rows).items()}
    mean, each = (2.0, 1.3) if has_int8_dot_product() else (1.0, 1.0)
    return at_least('int8, the faster route : float ONNX', speeds, mean, each)
