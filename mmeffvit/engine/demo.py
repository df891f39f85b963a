"""The main job from end to end on a CPU: make data, train, evaluate, look."""

import time
from pathlib import Path

import mmeffvit
from mmeffvit.datasets.shapes import ShapesSpec, generate
from mmeffvit.visualization.contact_sheet import draw_contact_sheet

from .launch import RunOptions, evaluate, train

CONFIG = 'maskrcnn_swiftformer_xs_shapes.py'
COCO_CONFIG = 'maskrcnn_swiftformer_xs.py'


def run_demo(folder: Path, seed: int = 0) -> dict[str, float]:
    """Train Mask R-CNN with SwiftFormer-XS from scratch on generated shapes, and show the result.

    Args:
        folder: Gets the data, the log, the checkpoints and the pictures.
        seed: Seed of the data and of the training.

    Returns:
        The COCO metrics on the held-out images, by name.
    """
    start = time.monotonic()
    config = str(mmeffvit.resource_dir('configs') / CONFIG)
    data = folder / 'shapes'
    print(f'generating shapes in {data}')
    generate(data, ShapesSpec(seed=seed))
    options = RunOptions(
        work_dir=str(folder / 'run'), cfg_options={'data_root': f'{data}/'}, seed=seed
    )
    runner = train(config, options)
    checkpoint = Path((folder / 'run' / 'last_checkpoint').read_text())
    metrics = evaluate(config, str(checkpoint), options)
    sheet = folder / 'contact_sheet.png'
    draw_contact_sheet(runner, sheet)
    coco = mmeffvit.resource_dir('configs') / COCO_CONFIG
    rows = {
        'box AP': f'{metrics["coco/bbox_mAP"]:.3f}',
        'mask AP': f'{metrics["coco/segm_mAP"]:.3f}',
        'pictures': sheet,
        'log': Path(runner.log_dir) / f'{runner.timestamp}.log',
        'checkpoint': checkpoint,
        'time': f'{(time.monotonic() - start) / 60:.1f} minutes',
        'on COCO': f'python {mmeffvit.resource_dir("tools") / "train.py"} {coco}'
        ' --cfg-options data_root=data/coco/',
    }
    print('\nMask R-CNN, SwiftFormer-XS, generated shapes, from scratch')
    for name, value in rows.items():
        print(f'  {name:<11}{value}')
    return metrics
