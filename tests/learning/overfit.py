"""Train a config on a few images and evaluate it on the same ones."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from mmeffvit.data.shapes import CLASSES, ShapesSpec, generate, generate_ade20k
from mmeffvit.train.engine.options import TrainOptions
from mmeffvit.train.engine.train import train
from tests.conftest import ROOT

WARM_UP = (
    30  # iterations: without them, the first steps of AdamW harm a network trained from scratch
)
NUM_IMAGES = 4


@dataclass(frozen=True)
class Case:
    """One head and its required metrics; every batch has all images.

    Args:
        head: The name of the head in words.
        config_name: The config, in ``configs/``.
        metric: Name of the metric in the config's evaluator; mIoU for segmentors.
        options: Dotted keys of the config and their values, in addition to those of all cases.
        floor: The required value.
        iterations: Steps of the test.
        long_iterations: Steps of ``make learn``.
        side: Height and width of the images, in pixels.
        lr: The highest learning rate of AdamW.
    """

    head: str
    config_name: str
    metric: str
    options: Mapping[str, Any]
    _: KW_ONLY
    floor: float
    iterations: int
    long_iterations: int
    side: int = 64
    lr: float = 2e-3

    @property
    def data(self) -> str:
        """The fixture with the images for the config."""
        return 'ade_shapes' if self.metric == 'mIoU' else 'shapes'


def overfit(case: Case, folder: Path, *, iterations: int) -> float:
    """Train from scratch and evaluate; with 0 iterations, evaluate the initial model.

    Args:
        case: What to train.
        folder: Gets the data and the run.
        iterations: Steps; for 0 a single one is made with a learning rate of 0.

    Returns:
        The metric.
    """
    steps = max(iterations, 1)
    data = (detection_data if case.data == 'shapes' else segmentation_data)(case, folder)
    options = {
        **schedule(steps, case.lr if iterations else 0.0),
        **data,
        'model.backbone.init_cfg': None,
        **deepcopy(dict(case.options)),  # merging modifies it
    }
    runner = train(
        str(ROOT / 'configs' / f'{case.config_name}.py'),
        # the check of configs has tests of its own, and takes seconds
        TrainOptions(work_dir=str(folder / 'run'), cfg_options=options, seed=0, check=False),
    )
    assert runner.iter == steps
    scalars = runner.message_hub.log_scalars
    name = f'val/{case.metric}'
    # not measured if there are no boxes
    return float(scalars[name].current()) if name in scalars else 0.0


def schedule(steps: int, lr: float) -> dict[str, Any]:
    """AdamW for ``steps``, warm-up and cosine, one evaluation at the end, no weight averaging."""
    warm_up = min(WARM_UP, steps)
    rise = dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=warm_up)
    fall = dict(type='CosineAnnealingLR', by_epoch=False, begin=warm_up, end=steps)
    return {
        'train_cfg': dict(
            _delete_=True, type='IterBasedTrainLoop', max_iters=steps, val_interval=steps
        ),
        'optim_wrapper': dict(
            _delete_=True,  # one parameter group: one per parameter is slow on a CPU
            type='OptimWrapper',
            optimizer=dict(type='AdamW', lr=lr, weight_decay=0.0, fused=True),
            clip_grad=dict(max_norm=10),
        ),
        'param_scheduler': [rise, fall] if steps > warm_up else [rise],
        'custom_hooks': [],
        'default_hooks.checkpoint': dict(by_epoch=False, interval=steps),
        'default_hooks.logger': dict(interval=100, log_metric_by_epoch=False),
        'log_processor.by_epoch': False,
        'log_level': 'WARNING',
    }


def loaders(train: dict[str, Any], val: dict[str, Any]) -> dict[str, Any]:
    """Data loaders in this process; every batch has all images in the same order."""
    common = dict(batch_size=NUM_IMAGES, num_workers=0, persistent_workers=False)
    sampler = dict(type='InfiniteSampler', shuffle=False)
    return {
        'train_dataloader': dict(**common, sampler=sampler, batch_sampler=None, dataset=train),
        'val_dataloader': dict(**{**common, 'batch_size': 1}, dataset=val),
    }


def detection_data(case: Case, folder: Path) -> dict[str, Any]:
    """Generated shapes, with masks if the config uses them; none are held out."""
    data_root = folder / f'shapes_{case.side}'
    generate(data_root, ShapesSpec(num_train=NUM_IMAGES, num_val=1, side=case.side))
    load = [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True, with_mask='maskrcnn' in case.config_name),
    ]
    resize = dict(type='Resize', scale=(case.side, case.side))  # sets the scale factor, which is 1
    keys = ('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')
    ann_file = 'annotations/instances_train2017.json'
    common = dict(
        ann_file=ann_file, data_prefix=dict(img='train2017/'), metainfo=dict(classes=CLASSES)
    )
    return {
        'data_root': str(data_root),
        **loaders(
            dict(**common, pipeline=[*load, dict(type='PackDetInputs')]),
            dict(**common, pipeline=[*load, resize, dict(type='PackDetInputs', meta_keys=keys)]),
        ),
        'val_evaluator.ann_file': str(data_root / ann_file),
    }


def segmentation_data(case: Case, folder: Path) -> dict[str, Any]:
    """Generated shapes stretched to a square; labels are compared at their own size."""
    data_root = folder / f'ade_{case.side}'
    generate_ade20k(data_root, ShapesSpec(num_train=NUM_IMAGES, num_val=1, side=case.side))
    load_image, pack = dict(type='LoadImageFromFile'), dict(type='PackSegInputs')
    load_labels = dict(type='LoadAnnotations', reduce_zero_label=True)
    resize = dict(type='Resize', scale=(case.side, case.side))
    prefix = dict(img_path='images/training', seg_map_path='annotations/training')
    return {
        'data_root': str(data_root),
        **loaders(
            dict(data_prefix=prefix, pipeline=[load_image, load_labels, resize, pack]),
            dict(data_prefix=prefix, pipeline=[load_image, resize, load_labels, pack]),
        ),
    }
