"""Train Mask R-CNN with SwiftFormer-XS on generated shapes: about ten minutes on two CPU cores."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.datasets.shapes import ShapesSpec, generate
from mmeffvit.engine.evaluate import evaluate
from mmeffvit.engine.metrics import in_percent
from mmeffvit.engine.options import RunOptions
from mmeffvit.engine.processes import train_in_processes
from mmeffvit.utils.machine import num_cores
from mmeffvit.utils.resources import resource_dir
from mmeffvit.visualization.contact_sheet import draw_contact_sheet

from .arguments import add_alias, new_parser, output_folder

CONFIG = 'maskrcnn_swiftformer_xs_shapes.py'
COCO_CONFIG = 'maskrcnn_swiftformer_xs.py'
BATCH = 8  # images per step over all processes


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'demo --out-dir work_dirs/demo')
    add = parser.add_argument
    add(
        '--out-dir',
        dest='out',
        type=output_folder,
        default='work_dirs/demo',
        metavar='FOLDER',
        help='output folder (default: %(default)s)',
    )
    add_alias(parser, '--out', '--out-dir')
    add('--seed', type=int, default=0, help='random seed of data and training')
    return parser


def run(out: Path, seed: int) -> None:
    run_demo(out, seed)


def run_demo(
    folder: Path, seed: int = 0, *, spec: ShapesSpec | None = None, epochs: int | None = None
) -> dict[str, float]:
    """Train Mask R-CNN with SwiftFormer-XS from scratch on generated shapes, and show the result.

    Args:
        folder: Gets the data, the log, the checkpoints and the pictures.
        seed: Seed of the data and of the training.
        spec: What to generate; None takes the usual set, with ``seed``.
        epochs: How long to train; None takes the config's number.

    Returns:
        The COCO metrics on the held-out images, by name.

    Raises:
        UserError: If training failed.
    """
    start = time.monotonic()
    config = resource_dir('configs') / CONFIG
    data = folder / 'shapes'
    print(f'generating shapes in {data}', flush=True)
    generate(data, spec or ShapesSpec(seed=seed))
    train_options: dict[str, Any] = dict(data_root=f'{data}/')
    if epochs is not None:
        train_options['train_cfg.max_epochs'] = epochs
    train_on_cpu(config, folder / 'run', seed, train_options)
    checkpoint = Path((folder / 'run' / 'last_checkpoint').read_text())
    options = RunOptions(
        work_dir=str(folder / 'evaluation'),
        cfg_options={'data_root': f'{data}/'},
        seed=seed,
        verbose=False,
    )
    runner, metrics = evaluate(str(config), str(checkpoint), options)
    sheet = folder / 'contact_sheet.png'
    draw_contact_sheet(runner, sheet)
    (log,) = sorted((folder / 'run').glob('*/*.log'))[-1:]
    print('\nMask R-CNN, SwiftFormer-XS, generated shapes, from scratch')
    rows = {
        **{name: f'{value} %' for name, value in in_percent(metrics).items()},
        'pictures': sheet,
        'log': log,
        'checkpoint': checkpoint,
        'time': f'{(time.monotonic() - start) / 60:.1f} minutes',
        'on COCO': coco_command(),
    }
    for name, value in rows.items():
        print(f'  {name:<12}{value}')
    return metrics


def train_on_cpu(config: Path, work_dir: Path, seed: int, options: dict[str, Any]) -> None:
    """Train in two processes where there are two cores."""
    processes = min(2, num_cores())
    options = {**options, 'train_dataloader.batch_size': BATCH // processes}
    train_in_processes(
        processes,
        str(config),
        RunOptions(work_dir=work_dir, cfg_options=options, seed=seed, verbose=False),
        environment=dict(CUDA_VISIBLE_DEVICES=''),  # the demonstration is one of a CPU
    )


def coco_command() -> str:
    """The command that trains the same model on COCO."""
    return f'mmeffvit train {Path(COCO_CONFIG).stem} --cfg-options data_root=data/coco/'
