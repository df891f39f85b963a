"""``python -m tests.hostile``: the long run, or a part of it; prints groups by outcomes."""

import gc
import os
import sys
import tempfile
import threading
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import cv2
import torch

from tests.conftest import ROOT
from tests.hostile.judge import Case, Verdict, judged, table
from tests.hostile.world import World, build

MODULES = (
    'pickles', 'checkpoints', 'archives', 'data', 'folders', 'images', 'configs', 'outputs',
    'models', 'metadata', 'results', 'signals',
)  # fmt: skip


def parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(description=__doc__)
    add = parser.add_argument
    add('group', nargs='?', default='', help='groups whose name has this in it (all)')
    add('--more', type=int, default=20, help='multiple of the random cases (%(default)s)')
    add('--seed', type=int, default=0, help='of the random cases')
    add('--only', default='', help='cases whose title has this in it, and their controls')
    add('--jobs', type=int, default=os.cpu_count(), help='processes at a time (%(default)s)')
    add('--keep', action='store_true', help='leave the folders of cases that are not clean')
    return parser.parse_args(arguments)


def import_all() -> None:
    """What the commands import, once: every case inherits it."""
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    modules = [
        'matplotlib.pyplot', 'onnx', 'onnxruntime', 'mmcv.ops', 'torch._dynamo',
        'yapf.yapflib.yapf_api', 'mmdet.datasets', 'mmdet.models', 'mmdet.evaluation',
        'mmdet.visualization', 'mmseg.datasets', 'mmseg.models', 'mmseg.evaluation',
        'mmseg.visualization', 'safetensors.torch', 'huggingface_hub', 'onnxruntime.quantization',
    ]  # fmt: skip
    modules += [f'mmeffvit.cli.{path.stem}' for path in (ROOT / 'mmeffvit/cli').glob('*.py')]
    modules += ['mmeffvit.zoo', 'mmeffvit.deploy.runtime.predictor']
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    assert threading.active_count() == 1, 'a fork would leave the other threads behind'


def make_world(folder: Path) -> World:
    """Build it, in a process of its own."""
    folder.mkdir()
    process = get_context('fork').Process(target=build, args=(folder,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f'{folder} cannot be built')
    return World(folder)


def all_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    for module in MODULES:
        yield from import_module(f'{__package__}.cases_{module}').cases(world, seed, more)


def run(cases: Sequence[Case], folder: Path, jobs: int) -> int:
    """Judge cases, print what is not clean and the table; the exit code."""

    def report(verdict: Verdict) -> None:
        if verdict.outcome != 'clean':
            print(f'\n{verdict.outcome}: {verdict.case.title}\n{verdict.detail}', flush=True)

    verdicts = judged(cases, folder, jobs, report)
    print(f'\n{table(verdicts)}')
    return int(any(verdict.outcome != 'clean' for verdict in verdicts))


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if os.environ.get('OMP_NUM_THREADS') != '1':  # it is read when libraries are loaded
        command = [sys.executable, '-m', __package__, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, 'OMP_NUM_THREADS': '1'})
    import_all()
    place = (
        nullcontext(tempfile.mkdtemp(prefix='hostile_'))
        if options.keep
        else tempfile.TemporaryDirectory(prefix='hostile_', ignore_cleanup_errors=True)
    )
    with place as folder:
        root = Path(folder)
        world = make_world(root / 'world')
        cases = [
            case for case in all_cases(world, options.seed, options.more)
            if options.group in case.group and (case.is_control or options.only in case.title)
        ]  # fmt: skip
        groups = {case.group for case in cases if not case.is_control}
        return run([case for case in cases if case.group in groups], root / 'cases', options.jobs)


if __name__ == '__main__':
    raise SystemExit(main())
