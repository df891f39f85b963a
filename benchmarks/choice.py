"""The choice of ``mmeffvit profile`` beside all files it chose from, one thread, batch 1.

The profiler has timed each file in a process of its own; here they are timed again, in one. As
there, a turn is a series of runs, as on a video: single runs in turns would have the caches as
another file has left them. Backbones with random weights, as in the part on int8.
"""

import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.compare import expect_maps
from mmeffvit.deploy.export import Source
from mmeffvit.deploy.graphs.backbone import BackboneGraph
from mmeffvit.deploy.onnx.export import ExportOptions
from mmeffvit.deploy.predictor.pictures import reader_of
from mmeffvit.deploy.profiling.candidates import Candidate
from mmeffvit.deploy.profiling.opening import open_file
from mmeffvit.deploy.profiling.run import ProfileOptions, profile_source
from mmeffvit.deploy.profiling.worker import timed

from .backbones import key
from .int8 import with_statistics, write_images
from .part import CLOCKS, Cases, Rows, Settings, Target, measured, milliseconds, table
from .peers import QUICK, VARIANTS, Variant, build_ours
from .store import Row, rounded
from .timing import Samples

TITLE = 'Choice of the profiler'
DEVICES = ('cpu',)
ROUNDS = 10
SECONDS = 0.2  # of a turn
HIGHEST = 1.05  # time of the choice relative to the fastest


def cases(settings: Settings) -> Cases:
    variants = QUICK if settings.quick else VARIANTS
    return {
        key(v, (v.side, v.side)): partial(measure, v, (v.side, v.side), settings) for v in variants
    }


def measure(variant: Variant, size: tuple[int, int], settings: Settings) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_images(folder / 'images', size)
        read = reader_of((1, 3, *size), {})
        backbone = with_statistics(build_ours(variant, size), paths[:8], read)
        graph = BackboneGraph(backbone).eval()
        image = read(paths[-1])
        pixels = image[0].transpose(1, 2, 0).astype('uint8')
        source = Source(graph, {}, partial(expect_maps, graph, backbone), ('noise', pixels))
        options = ProfileOptions(
            images=folder / 'images',
            threads=(1,),
            seconds=0.05 if settings.quick else 2.0,
            clock=settings.clock,
        )
        found = profile_source(str(variant), source, ExportOptions(size, 1), folder, options)
        samples = time_again([each.candidate for each in found.measured], image, settings)
    chosen = found.best.candidate
    return dict(
        model=str(variant), size=size, chosen=f'{chosen.runtime} {chosen.precision}',
        absent=[f'{a.runtime} {a.precision}: {a.state}' for a in found.absent],
        seconds=rounded(samples),
    )  # fmt: skip


def time_again(files: Sequence[Candidate], image: NDArray, settings: Settings) -> Samples:
    """The median of every turn, by file."""
    rounds, seconds = (2, 0.02) if settings.quick else (ROUNDS, SECONDS)
    runs = {
        f'{file.runtime} {file.precision}': partial(
            open_file(file.path, 1, half=file.half).run, image
        )
        for file in files
    }
    samples: Samples = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times = timed(run, seconds, CLOCKS[settings.clock])
            samples[name].append(statistics.median(times))
    return samples


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
    return [*table(heading, lines), '', 'Empty: refused, not possible or not installed.']


def targets(rows: Rows) -> list[Target]:
    ratios = {name: slowdown(row) for name, row in measured(rows).items()}
    if not ratios:
        return []
    worst = max(ratios, key=ratios.__getitem__)
    name = f"time of the profiler's choice : fastest, none above {HIGHEST}"
    return [Target(name, f'{ratios[worst]:.2f} ({worst})', ratios[worst] <= HIGHEST)]
