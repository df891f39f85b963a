"""The config of a run: short, commented, ordinary.

Names of classes and folders are data of anybody's: they stand in ``data.json`` beside the config.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.device import get_device

from mmeffvit.config.datasets import name_of, settings_of, without_reduction
from mmeffvit.data.records import DataSet
from mmeffvit.data.write import Split, classes_of_maps
from mmeffvit.utils.files import resource_dir, write_file
from mmeffvit.utils.text import counted

from .base import Base, class_counts, scaled
from .code import Code, assign, comment
from .loading import with_reduced_loading
from .recipe import Overrides, Recipe
from .weights import Start

OVERSAMPLED = 0.3  # classes in less than this share of the images are repeated
DATA = 'data.json'
MILD = (0.9, 1.1)  # of the image size, that objects are resized by from scratch
FLOOR = 0.02  # of the learning rate, that it ends at


@dataclass(frozen=True)
class Teaching:
    """What a student is trained with besides labels.

    Args:
        sure: Score from which a prediction is always a label.
        teacher: Config, run or saved model of a teacher that runs in every step; None without.
        checkpoint: Its weights, if they are not with it.
        losses: Names of losses, see :class:`mmeffvit.engine.teacher.TeacherHook`; None for its own.
    """

    sure: float
    teacher: str | None = None
    checkpoint: str | None = None
    losses: tuple[str, ...] | None = None


def write_config(
    path: Path,
    base: Base,
    data: DataSet,
    splits: dict[str, Split],
    recipe: Recipe,
    overrides: Overrides,
    start: Start,
    teaching: Teaching | None = None,
) -> None:
    """Write a config, and ``data.json`` beside it.

    Args:
        path: The config, in a folder with ``index/``; the run gets ``run/``.
        base: The config that it inherits from.
        data: What is trained on.
        splits: Its splits as written.
        recipe: Sizes and rates.
        overrides: What the user set.
        start: Where the weights come from.
        teaching: Of a student.
    """
    folder = path.parent.absolute()
    classes = classes_of_maps(data) if base.is_segmentor else data.classes
    names = dict(
        classes=classes,
        data_root=f'{data.root.absolute()}/',
        images={name: below(split.images, data.root) for name, split in splits.items()},
        index=f'{folder}/index/',
        work_dir=f'{folder}/run/',
    )
    if teaching and teaching.teacher:
        names.update(teacher=teaching.teacher, teacher_checkpoint=teaching.checkpoint)
    write_file(path.with_name(DATA), json.dumps(names, indent=1))
    write_file(path, config_text(base, data, splits, recipe, overrides, start, teaching))


def config_text(
    base: Base,
    data: DataSet,
    splits: dict[str, Split],
    recipe: Recipe,
    overrides: Overrides,
    start: Start,
    teaching: Teaching | None = None,
) -> str:
    """The config, as text; see :func:`write_config`."""
    num_classes = len(classes_of_maps(data) if base.is_segmentor else data.classes)
    counts = ', '.join(f'{counted(s.count, "image")} to {name}' for name, s in splits.items())
    data_part = segmentation_data if base.is_segmentor else detection_data
    sample = None
    if teaching and data.has_scores and not base.is_segmentor:
        sample = dict(type='mmeffvit.SampleByScore', sure=teaching.sure)
    lines = [
        f'"""{base.name}: {counted(num_classes, "class")}, {counts}.',
        '',
        'An ordinary config, written by `mmeffvit train`: change what you like, then train with',
        f'`mmeffvit train THIS_FILE{processes_option(recipe.processes)}`.',
        '"""',
        '',
        base_line(base.name),
        '',
        'from mmeffvit.config.beside import read_beside',
        '',
        f'# {data.format} in its place: its names are in {DATA}, its annotations in index/',
        'data_root, index, images, classes, work_dir = read_beside(',
        f"    '{DATA}', 'data_root', 'index', 'images', 'classes', 'work_dir'",
        ')',
        '',
        *teacher_lines(teaching),
        *pipelines(base, recipe, sample),
        *data_part(base, splits, recipe, overrides, sample),
        '',
        *model_part(base, recipe, overrides, start),
        *schedule(base, recipe, overrides, teaching),
        '',
    ]
    return '\n'.join(lines)


def base_line(name: str) -> str:
    """The base, in the folder of our configs, which another machine may have elsewhere."""
    folder = str(resource_dir('configs'))
    if re.fullmatch(r'[\w/.-]+', folder):  # others mmengine cannot substitute
        folder = f'{{{{$MMEFFVIT_CONFIGS:{folder}}}}}'
        return f"_base_ = ['{folder}/{name}.py']"
    return assign('_base_', [f'{folder}/{name}.py'])


def teacher_lines(teaching: Teaching | None) -> list[str]:
    if teaching is None or teaching.teacher is None:
        return []
    read = f"teacher, teacher_checkpoint = read_beside('{DATA}', 'teacher', 'teacher_checkpoint')"
    return [read, '']


def pipelines(base: Base, recipe: Recipe, sample: dict | None = None) -> list[str]:
    factor = recipe.image_size / base.image_size
    change = without_reduction if base.is_segmentor else (lambda pipeline: pipeline)
    train = change(scaled(first_pipeline(base, recipe), factor))
    last = scaled(base.last_pipeline, factor) if base.last_pipeline else []
    for pipeline in filter(None, (train, last)) if sample else ():
        place = next(i for i, step in enumerate(pipeline) if 'Annotations' in name_of(step))
        pipeline.insert(place, sample)  # draws predictions by their scores
    if recipe.shrinks_images:
        train, last = with_reduced_loading(train), with_reduced_loading(last)
    lines = [
        f'# sizes are those of the base, for {base.image_size} pixels, times {factor:g}'
        if factor != 1
        else f'# for {base.image_size} pixels, as in the base',
        assign('train_pipeline', train),
    ]
    if last and recipe.has_mosaic:
        lines.append(assign('last_pipeline', last))
    lines += [assign('test_pipeline', change(scaled(base.test_pipeline, factor))), '']
    if 'tta_pipeline' in base.config:
        tta = change(scaled(base.config.to_dict()['tta_pipeline'], factor))
        lines.insert(-1, assign('tta_pipeline', tta))
    return lines


def first_pipeline(base: Base, recipe: Recipe) -> list[dict]:
    """What training starts with: that of the base, or from scratch one that is easier to learn."""
    if recipe.has_mosaic or not base.last_pipeline:
        return base.train_pipeline
    pipeline = base.last_pipeline
    for resize in settings_of(pipeline, 'RandomResize'):
        resize['ratio_range'] = MILD
    return pipeline


def detection_data(
    base: Base,
    splits: dict[str, Split],
    recipe: Recipe,
    overrides: Overrides,
    sample: dict | None = None,
) -> list[str]:
    def dataset(name: str, **more: Any) -> dict:
        return dict(
            data_root=Code('data_root'),
            ann_file=Code(f"index + '{name}.json'"),
            data_prefix=dict(img=Code(f"images['{name}']")),
            metainfo=dict(classes=Code('classes')),
            **more,
        )

    train = dataset(
        'train',
        filter_cfg=dict(filter_empty_gt=False),  # images without objects teach what is none
        pipeline=Code('train_pipeline'),
    )
    if sample:
        train = dict(type='mmeffvit.ScoredCocoDataset', **train)
    if overrides.balance:
        inner = dict(type=base.config.train_dataloader.dataset.type) | train
        train = dict(
            _delete_=True, type='ClassBalancedDataset', oversample_thr=OVERSAMPLED, dataset=inner
        )
    loader = dict(
        batch_size=Code('batch'),
        num_workers=recipe.workers,
        persistent_workers=recipe.workers > 0,
    )
    # a last batch of one image would be too small for batch norms
    sampler = base.config.train_dataloader.get('batch_sampler')
    complete = dict(batch_sampler=dict(drop_last=True)) if sampler else dict(drop_last=True)
    tested = 'test' if 'test' in splits else 'val'
    lines = [
        *batch_lines(recipe),
        assign('train_dataloader', dict(**loader, **complete, dataset=train)),
    ]
    for name, split in (('val', 'val'), ('test', tested)):
        if name == 'test' and tested == 'val':
            lines += ['test_dataloader = val_dataloader', 'test_evaluator = val_evaluator']
            continue
        tests = dataset(split, test_mode=True, pipeline=Code('test_pipeline'))
        lines += [
            assign(f'{name}_dataloader', dict(**loader, dataset=tests)),
            assign(f'{name}_evaluator', dict(ann_file=Code(f"index + '{split}.json'"))),
        ]
    return lines


def segmentation_data(
    base: Base,
    splits: dict[str, Split],
    recipe: Recipe,
    overrides: Overrides,
    sample: dict | None = None,
) -> list[str]:
    def dataset(name: str, pipeline: str) -> dict:
        return dict(
            _delete_=True,
            type='mmeffvit.PairedSegDataset',
            data_root=Code('data_root'),
            ann_file=Code(f"index + '{name}.json'"),
            data_prefix=dict(img_path=Code(f"images['{name}']"), seg_map_path=Code('index')),
            metainfo=dict(classes=Code('classes')),
            pipeline=Code(pipeline),
        )

    train = dict(
        batch_size=Code('batch'),
        num_workers=recipe.workers,
        persistent_workers=recipe.workers > 0,
        dataset=dataset('train', 'train_pipeline'),
    )
    tests = dict(
        num_workers=recipe.workers,
        persistent_workers=recipe.workers > 0,
        dataset=dataset('val', 'test_pipeline'),
    )
    lines = [
        *batch_lines(recipe),
        assign('train_dataloader', train),
        assign('val_dataloader', tests),
    ]
    if 'test' not in splits:
        return [*lines, 'test_dataloader = val_dataloader']
    return [
        *lines,
        assign('test_dataloader', {**tests, 'dataset': dataset('test', 'test_pipeline')}),
    ]


def batch_lines(recipe: Recipe) -> list[str]:
    if recipe.processes == 1:
        return [assign('batch', recipe.batch)]
    return [assign('processes', recipe.processes), f'batch = {recipe.batch}  # of each process']


def processes_option(processes: int) -> str:
    """The option of `mmeffvit train` for as many processes."""
    return f' --processes {processes}' if processes > 1 else ''


def below(images: Path, root: Path) -> str:
    """The folder of images, relative to the data set if it is in it."""
    if not images.is_relative_to(root.absolute()):
        return f'{images}/'
    inner = images.relative_to(root.absolute()).as_posix()
    return '' if inner == '.' else f'{inner}/'


def model_part(base: Base, recipe: Recipe, overrides: Overrides, start: Start) -> list[str]:
    model = class_counts(base.config.model, Code('len(classes)'))
    backbone: dict[str, Any] = {}
    if not start.keeps_backbone and base.backbone_weights:
        backbone['init_cfg'] = None
    if start.is_scratch and base.config.model.backbone.get('norm_eval'):
        backbone['norm_eval'] = False  # statistics of random weights are meaningless
    if overrides.freeze is not None:
        backbone['frozen_stages'] = overrides.freeze
    if backbone:
        model['backbone'] = backbone
    if base.is_segmentor and base.config.model.data_preprocessor.get('size'):
        model['data_preprocessor'] = dict(size=(recipe.image_size, recipe.image_size))
    lines = [comment(f'from {start.what}')]
    if start.checkpoint:
        lines.append(assign('load_from', start.checkpoint))
    return [*lines, assign('model', model), '']


def schedule(
    base: Base, recipe: Recipe, overrides: Overrides, teaching: Teaching | None = None
) -> list[str]:
    by_epoch = base.config.train_cfg.type == 'EpochBasedTrainLoop'
    unit = '' if by_epoch else ' * iterations'
    # in epochs where there are any: their length depends on --balance and on the processes
    start, end = ('warm_up / iterations', 'epochs') if by_epoch else ('warm_up', f'epochs{unit}')
    unit_of = dict(convert_to_iter_based=True) if by_epoch else dict(by_epoch=False)
    rise = dict(type='LinearLR', start_factor=0.01, begin=0, end=Code(start), **unit_of)
    fall = dict(
        type='CosineAnnealingLR',
        begin=Code(start),
        end=Code(end),
        T_max=Code(f'{end} - {start}'),
        eta_min=Code(f'{FLOOR} * rate'),
        **unit_of,
    )
    lines = [
        f'# learning rate of the base: {base.optimizer["lr"]:g} for batch size {base.batch_size}',
        assign('epochs', recipe.epochs),
        f'iterations = {recipe.iterations}  # of an epoch',
        f'warm_up = {recipe.warm_up}  # iterations',
        assign('rate', recipe.rate),
        assign('optim_wrapper', optimizer(overrides)),
        assign('param_scheduler', [rise, fall] if recipe.warm_up else [fall]),
    ]
    loop: dict[str, Any] = {'max_epochs' if by_epoch else 'max_iters': Code(f'epochs{unit}')}
    loop['val_interval'] = Code(f'{recipe.val_every}{unit}')
    if base.config.train_cfg.get('dynamic_intervals'):
        loop['dynamic_intervals'] = None
    saving = dict(
        interval=Code(f'{recipe.val_every}{unit}'),
        max_keep_ckpts=2,
        save_best=base.metric,
        rule='greater',
    )
    logger = dict(interval=max(1, min(50, recipe.iterations // 2)))
    lines += [
        assign('train_cfg', loop),
        assign('default_hooks', dict(logger=logger, checkpoint=saving)),
        assign('custom_hooks', hooks(base, recipe, teaching)),
    ]
    if get_device() == 'cpu':
        lines.append('sync_bn = None  # of several processes: GPUs only')
    return lines


def optimizer(overrides: Overrides) -> dict:
    steps = {} if overrides.accumulate == 1 else dict(accumulative_counts=overrides.accumulate)
    return dict(optimizer=dict(lr=Code('rate')), **steps)


def hooks(base: Base, recipe: Recipe, teaching: Teaching | None = None) -> list[dict]:
    """EMA weights, the end of mosaics, the end of training, a teacher."""
    average = dict(
        type='mmeffvit.EMAHook',
        momentum=recipe.ema_momentum,
        begin_iter=Code('warm_up'),
        update_buffers=True,
        priority=49,  # before the hook that saves
    )
    switch = dict(
        type='PipelineSwitchHook',
        switch_epoch=Code(f'max(0, epochs - {recipe.last_epochs})'),
        switch_pipeline=Code('last_pipeline'),
    )
    stop = dict(
        type='EarlyStoppingHook',
        monitor=base.metric,
        rule='greater',
        patience=recipe.patience,  # validations
        min_delta=0.0,
    )
    teacher = dict(
        type='mmeffvit.TeacherHook',
        teacher=Code('teacher'),
        checkpoint=Code('teacher_checkpoint'),
        losses=teaching.losses if teaching else None,
    )
    has_switch = base.last_pipeline and recipe.has_mosaic
    has_teacher = teaching is not None and teaching.teacher is not None
    wanted = (
        (average, True),
        (switch, has_switch),
        (stop, recipe.patience),
        (teacher, has_teacher),
    )
    return [hook for hook, is_wanted in wanted if is_wanted]
