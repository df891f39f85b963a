"""``python -m tests.learning.compare``: GFLite and RTMDet over the same backbone.

Both train from random weights with the same data, optimizer and schedule, for equal steps of eight
images: on generated shapes of 64 pixels (`--side`), with AP on other shapes, or on images in
COCO's format at 128 pixels, with AP on the same ones. Prints a row of a Markdown table per run.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from mmeffvit.data.shapes import CLASSES, ShapesSpec, generate
from mmeffvit.train.engine.options import RunOptions
from mmeffvit.train.engine.train import train
from tests.conftest import ROOT
from tests.learning.overfit import schedule

BATCH, LR = 8, 2e-3
NUM_TRAIN, NUM_VAL = 256, 64  # shapes


def data_of(
    data_root: Path, side: int, train_name: str, val_name: str, metainfo: dict[str, Any] | None
) -> dict[str, Any]:
    """Images stretched to a square and flipped with probability 0.5; loaded in this process."""
    load = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True)]
    resize = dict(type='Resize', scale=(side, side), keep_ratio=False)
    keys = ('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')
    flip = dict(type='RandomFlip', prob=0.5)
    common = dict(num_workers=0, persistent_workers=False)

    def dataset(name: str, pipeline: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(
            type='CocoDataset',
            _delete_=True,
            data_root=str(data_root),
            ann_file=f'annotations/instances_{name}.json',
            data_prefix=dict(img=f'{name}/'),
            metainfo=metainfo or {},
            pipeline=pipeline,
        )

    return {
        'train_dataloader': dict(
            **common,
            batch_size=BATCH,
            sampler=dict(type='InfiniteSampler', shuffle=True, _delete_=True),
            batch_sampler=None,
            dataset=dataset(train_name, [*load, resize, flip, dict(type='PackDetInputs')])
            | dict(test_mode=False, filter_cfg=dict(filter_empty_gt=True)),
        ),
        'val_dataloader': dict(
            **common,
            batch_size=1,
            dataset=dataset(
                val_name, [load[0], resize, load[1], dict(type='PackDetInputs', meta_keys=keys)]
            )
            | dict(test_mode=True),
        ),
        'val_evaluator.ann_file': str(data_root / f'annotations/instances_{val_name}.json'),
    }


def box_ap(config: str, data: dict[str, Any], steps: int, seed: int, classes: int) -> float:
    """Box AP in percent after ``steps``; 0 if no box is found."""
    options = {
        **schedule(steps, LR),
        **data,
        'model.backbone.init_cfg': None,
        'model.bbox_head.num_classes': classes,
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        runner = train(
            str(ROOT / 'configs' / f'{config}.py'),
            RunOptions(work_dir=folder, cfg_options=options, seed=seed),
            check=False,
        )
    scalars = runner.message_hub.log_scalars
    name = 'val/coco/bbox_mAP'
    return 100 * float(scalars[name].current()) if name in scalars else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--backbone', default='swiftformer_xs', help='as in names of configs')
    parser.add_argument('--steps', type=int, help='500 for shapes, 200 for COCO images')
    parser.add_argument('--side', type=int, default=64, help='of the shapes, in pixels')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--coco', type=Path, help='folder in COCO format')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.coco:
            data = data_of(given.coco.resolve(), 128, 'train2017', 'train2017', None)
            steps, classes = given.steps or 200, 80
        else:
            root = Path(folder, 'shapes')
            generate(root, ShapesSpec(num_train=NUM_TRAIN, num_val=NUM_VAL, side=given.side))
            data = data_of(root, given.side, 'train2017', 'val2017', dict(classes=CLASSES))
            steps, classes = given.steps or 500, len(CLASSES)
        print('| seed | detector | box AP, % |\n|---|---|---|', flush=True)
        for seed in given.seeds:
            for head in ('gflite', 'rtmdet'):
                ap = box_ap(f'{head}_{given.backbone}', data, steps, seed, classes)
                print(f'| {seed} | {head} | {ap:.1f} |', flush=True)


if __name__ == '__main__':
    main()
