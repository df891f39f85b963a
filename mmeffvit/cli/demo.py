"""Train Mask R-CNN with SwiftFormer-XS on generated shapes: about ten minutes on two CPU cores."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.analysis.contact_sheet import draw_contact_sheet
from mmeffvit.data.shapes import ShapesSpec, generate
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate
from mmeffvit.train.engine.metrics import in_percent
from mmeffvit.train.engine.options import TrainOptions, use_device
from mmeffvit.train.engine.processes import train_in_processes
from mmeffvit.utils.files import resource_dir
from mmeffvit.utils.machine import num_cores

from .arguments import add_out_dir, check_seed, new_parser

CONFIG = 'maskrcnn_swiftformer_xs_shapes.py'
ON_COCO = 'mmeffvit train maskrcnn_swiftformer_xs --cfg-options data_root=data/coco/'
BATCH = 8  # images per step over all processes


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'demo --out-dir work_dirs/demo')
    add_out_dir(parser, 'work_dirs/demo')
    parser.add_argument('--seed', type=int, default=0, help='random seed of data and training')
    return parser


def run(out: Path, seed: int) -> None:
    check_seed(seed)
    run_demo(out, seed)


def run_demo(
    folder: Path, seed: int = 0, *, spec: ShapesSpec | None = None, epochs: int | None = None
) -> dict[str, float]:
    """Train Mask R-CNN with SwiftFormer-XS from scratch on generated shapes, and show the result.

    Args:
        folder: Output folder of the data, the log, the checkpoints and the contact sheet.
        seed: Random seed of the data and of the training.
        spec: What to generate; None takes the usual shapes, with ``seed``.
        epochs: Number of epochs; None takes the config's.

    Returns:
        The COCO metrics on the validation images, by name.

    Raises:
        UserError: If training failed.
    """
    use_device('cpu')  # the demo is one of a CPU
    start = time.monotonic()
    config = str(resource_dir('configs') / CONFIG)
    data = folder / 'shapes'
    print(f'generating shapes in {data}', flush=True)
    generate(data, spec or ShapesSpec(seed=seed))
    processes = min(2, num_cores())
    data_root = {'data_root': f'{data}/'}
    settings: dict[str, Any] = {**data_root, 'train_dataloader.batch_size': BATCH // processes}
    if epochs is not None:
        settings['train_cfg.max_epochs'] = epochs
    training = TrainOptions(
        folder / 'run',
        settings,
        seed=seed,
        verbose=False,
        device='cpu',
        resume='auto',  # the same command continues
    )
    train_in_processes(processes, config, training)
    checkpoint = Path((folder / 'run' / 'last_checkpoint').read_text())
    options = EvaluationOptions(
        work_dir=folder / 'evaluation', cfg_options=data_root, seed=seed, verbose=False
    )
    runner, metrics = evaluate(config, str(checkpoint), options)
    sheet = folder / 'contact_sheet.png'
    draw_contact_sheet(runner, sheet, 'val')
    (log,) = sorted((folder / 'run').glob('*/*.log'))[-1:]
    print('\nMask R-CNN, SwiftFormer-XS, generated shapes, from scratch')
    rows = {
        **{name: f'{value} %' for name, value in in_percent(metrics).items()},
        'images': sheet,
        'log': log,
        'checkpoint': checkpoint,
        'time': f'{(time.monotonic() - start) / 60:.1f} minutes',
        'on COCO': ON_COCO,
    }
    for name, value in rows.items():
        print(f'  {name:<12}{value}')
    return metrics
