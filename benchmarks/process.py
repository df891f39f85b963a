"""Memory of a process and images per second: table 8 of SHViT (arXiv:2401.16456)."""

import json
import statistics
import subprocess
import sys
from functools import partial

import torch
from torch import nn

from mmeffvit.deploy import fuse
from mmeffvit.utils.machine import resident_memory
from mmeffvit.utils.optional import require

from .machine import ROOT
from .part import CLOCKS, Cases, Rows, Settings, digits, measured, table
from .peers import Variant, build_ours
from .store import Row

TITLE = "Memory of a process: SHViT's table 8"
BATCHES = (1, 32, 256)
ROUNDS = 3
# MB of the process and images/s, by batch size; rates are those of an A100, which is not named
PUBLISHED = {
    'shvit_s3': {1: (1855, 147), 32: (1963, 4691), 256: (2613, 20522)},
    'efficientnet_b0': {1: (1931, 175), 32: (2015, 5427), 256: (3861, 8433)},
}


def cases(settings: Settings) -> Cases:
    batches = BATCHES[:1] if settings.quick else BATCHES
    return {
        f'{name}, batch {batch}': partial(measure, name, batch, settings)
        for name in PUBLISHED
        for batch in batches
    }


def measure(name: str, batch: int, settings: Settings) -> Row:
    """Run in a new process, whose peak memory is that of this model only.

    Raises:
        RuntimeError: If the process fails, for example for lack of memory.
    """
    command = [sys.executable, '-m', 'benchmarks.process', name, str(batch), settings.clock]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ['no message'])[-1]
        raise RuntimeError(f'exit code {done.returncode} ({last})')
    return dict(model=name, batch=batch, **json.loads(done.stdout.splitlines()[-1]))


def build(name: str) -> nn.Module:
    """The fused backbone of SHViT, or timm's EfficientNet without its classifier."""
    if name.startswith('shvit'):
        return fuse(build_ours(Variant(*name.split('_')), (224, 224)).eval())
    return require('timm').create_model(name, num_classes=0, global_pool='').eval()


def main() -> None:
    name, batch, clock = sys.argv[1], int(sys.argv[2]), CLOCKS[sys.argv[3]]
    torch.set_num_threads(1)
    model, seconds = build(name), []
    with torch.inference_mode():
        images = torch.randn(batch, 3, 224, 224)
        for _ in range(1 + ROUNDS):
            start = clock()
            model(images)
            seconds.append(clock() - start)
    print(json.dumps(dict(peak=resident_memory(peak=True), seconds={'run': seconds[1:]})))


def render(rows: Rows) -> list[str]:
    heading = ['model', 'batch', 'MB', 'images/s', 'MB, paper', 'images/s, paper']
    lines = []
    for row in measured(rows).values():
        rate = row['batch'] / statistics.median(row['seconds']['run'])
        paper = map(str, PUBLISHED[row['model']][row['batch']])
        lines.append([row['model'], row['batch'], f'{row["peak"] / 1e6:.0f}', digits(rate), *paper])
    text = (
        'Peak resident memory of a process that runs the backbone at 224 x 224 in float32 with one '
        'thread, including libraries and weights. The paper does not name its device; its rate at '
        'batch size 256 is that of an A100.'
    )
    return [text, '', *table(heading, lines)]


if __name__ == '__main__':
    main()
