"""The choice of ``mmeffvit profile`` compared with all candidates, one thread, batch 1.

All candidates are timed a second time, as the profiler does. Backbones have random weights, as in
the part on int8.
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mmeffvit.deploy.compare import expect_maps
from mmeffvit.deploy.export import Exportable
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.deploy.profile.run import ProfileOptions, profile_source
from mmeffvit.deploy.profile.worker import Job
from mmeffvit.deploy.runtime.resizing import reader_of

from .backbones import key
from .int8 import QUANTILE, with_statistics, write_images
from .part import Cases, Rows, Settings, Target, measured, milliseconds, table
from .peers import QUICK, VARIANTS, Variant, build_ours
from .store import Row, rounded
from .timing import time_files

TITLE = 'Choice of the profiler'
SECONDS = 2.0  # for each file
HIGHEST = 1.05  # time of the choice relative to the fastest


def cases(settings: Settings) -> Cases:
    variants = QUICK if settings.quick else VARIANTS
    return {
        key(v, (v.side, v.side)): partial(measure, v, (v.side, v.side), settings) for v in variants
    }


def measure(variant: Variant, size: tuple[int, int], settings: Settings) -> Row:
    torch.manual_seed(0)  # as in the part on int8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_images(folder / 'images', size)
        read = reader_of((1, 3, *size), {})
        backbone = with_statistics(build_ours(variant, size), paths[:8], read)
        graph = BackboneGraph(backbone).eval()
        image = read(paths[-1])
        pixels = image[0].transpose(1, 2, 0).astype('uint8')
        source = Exportable(graph, {}, partial(expect_maps, graph, backbone), ('noise', pixels))
        seconds = 0.05 if settings.quick else SECONDS
        options = ProfileOptions(
            images=folder / 'images', threads=(1,), seconds=seconds, clock=settings.clock
        )
        found = profile_source(str(variant), source, ExportOptions(size, 1), folder, options)
        stored = folder / 'image.npy'
        np.save(stored, image)
        files = [each.candidate for each in found.measured]
        job = partial(Job, images=stored, threads=1, clock=settings.clock)
        jobs = {f'{f.runtime} {f.precision}': job(f.path, half=f.half) for f in files}
        samples = time_files(jobs, seconds)
    chosen = found.best.candidate
    return dict(
        model=str(variant), size=size, chosen=f'{chosen.runtime} {chosen.precision}',
        absent=[f'{a.runtime} {a.precision}: {a.state}' for a in found.absent],
        seconds=rounded(samples),
    )  # fmt: skip


def slowdown(row: Row) -> float:
    """Time of the choice relative to the fastest file."""
    medians = {name: statistics.median(times) for name, times in row['seconds'].items()}
    return medians[row['chosen']] / min(medians.values())


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    names = sorted({name for row in rows.values() for name in row['seconds']})
    heading = ['model', 'image', *(f'{name}, ms' for name in names), 'choice', 'choice : fastest']
    lines = []
    for row in rows.values():
        cells = [row['model'], '{} x {}'.format(*row['size'])]
        cells += [
            milliseconds(row['seconds'][name]) if name in row['seconds'] else '' for name in names
        ]
        lines.append([*cells, row['chosen'], f'{slowdown(row):.2f}'])
    notes = f'{QUANTILE} Empty: rejected, not possible or not installed.'
    return [*table(heading, lines), '', notes]


def targets(rows: Rows) -> list[Target]:
    ratios = {name: slowdown(row) for name, row in measured(rows).items()}
    if not ratios:
        return []
    worst = max(ratios, key=ratios.__getitem__)
    name = f"time of the profiler's choice : fastest, none above {HIGHEST}"
    return [Target(name, f'{ratios[worst]:.2f} ({worst})', ratios[worst] <= HIGHEST)]
