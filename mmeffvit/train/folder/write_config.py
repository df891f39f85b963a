"""Write the config of a run: short, commented, ordinary.

Names of classes and folders are untrusted data, so they are in ``data.json`` beside the config.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, indent
from typing import Any

from mmengine.device import get_device

from mmeffvit.config.beside import Code, assign, comment
from mmeffvit.data.faults import IMAGE_CUT
from mmeffvit.data.records import DataSet
from mmeffvit.data.write import Split, classes_of_maps
from mmeffvit.utils.files import resource_dir, write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted

from .base import Base, Start
from .pipelines import pipelines
from .recipe import OVERSAMPLED, Overrides, Recipe, class_weights, fit_warm_up

DATA = 'data.json'
LIMITS = ('max_per_img', 'nms_pre', 'num_queries')  # of objects in an image
FLOOR = 0.02  # of the learning rate, that it ends at


@dataclass(frozen=True)
class Teaching:
    """Distillation settings of a student."""

    sure: float  # score from which a prediction is always a label
    # config, run or saved model of a teacher that runs in every step, if any
    teacher: str | None = None
    checkpoint: str | None = None  # weights of a teacher that is a config
    # names of losses, see :class:`mmeffvit.train.distillation.teacher.TeacherHook`; None for its
    # own
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
    """Write a config that inherits from ``base``, and ``data.json`` beside it.

    It is written next to ``index/``, with the ``splits`` of the dataset; its run is to be in
    ``run/``. Of the overrides, those are used that the recipe does not have.
    """
    folder = path.parent.absolute()
    classes = classes_of_maps(data) if base.is_segmentor else data.classes
    names = dict(
        data_root=f'{data.root.absolute()}/',
        index=f'{folder}/index/',
        images={name: below(split.images, data.root) for name, split in splits.items()},
        classes=classes,
        work_dir=f'{folder}/run/',
    )
    if teaching and teaching.teacher:
        names.update(teacher=teaching.teacher, teacher_checkpoint=teaching.checkpoint)
    counts = ', '.join(f'{counted(s.count, "image")} to {name}' for name, s in splits.items())
    sample = None
    if teaching and data.has_scores and not base.is_segmentor:
        sample = dict(type='mmeffvit.SampleByScore', sure=teaching.sure)
    has_background = not base.is_segmentor and not all(p.objects for p in data.splits['train'])
    counts_of_objects = [len(p.objects) for part in data.splits.values() for p in part]
    lines = [
        *pipelines(
            base,
            recipe,
            sample,
            are_cut=IMAGE_CUT in data.findings.counts,
            has_background=has_background,
        ),
        *batch_lines(recipe),
        *data_lines(base, splits, recipe, overrides, bool(sample)),
        '',
        *class_weight_lines(base, data, splits['train'], overrides, start),
        *model_part(base, recipe, overrides, start, max(counts_of_objects, default=0)),
        *schedule(base, recipe, overrides, teaching),
    ]
    what = f'{counted(len(classes), "class")}, {counts}'
    write_lines(path, base, data, what, names, lines, recipe.processes)


def write_lines(
    path: Path,
    base: Base,
    data: DataSet,
    what: str,
    names: dict[str, Any],
    lines: list[str],
    processes: int = 1,
) -> None:
    """Write a config after a description and its base, and the values that it reads by name."""
    options = f' --nproc-per-node {processes}' if processes > 1 else ''
    text = [
        f'"""{base.name}: {what}.',
        '',
        'An ordinary config, written by `mmeffvit train`: change what you like, then train with',
        f'`mmeffvit train THIS_FILE{options}`.',
        '"""',
        '',
        base_line(base.name),
        '',
        'from mmeffvit.config.beside import read_beside',
        '',
        f'# {data.format}: images are read in place, names are in {DATA}, annotations in index/',
        f'{", ".join(names)} = read_beside(',
        indent(fill(', '.join(map(repr, (DATA, *names))), 92), '    '),
        ')',
        '',
        *lines,
        '',
    ]
    write_file(path.with_name(DATA), json.dumps(names, indent=1))
    write_file(path, '\n'.join(text))


def base_line(name: str) -> str:
    """The line with the base, in our folder of configs, which may be elsewhere on other hosts."""
    folder = str(resource_dir('configs'))
    if re.fullmatch(r'[\w/.-]+', folder):  # others mmengine cannot substitute
        folder = f'{{{{$MMEFFVIT_CONFIGS:{folder}}}}}'
        return f"_base_ = ['{folder}/{name}.py']"
    return assign('_base_', [f'{folder}/{name}.py'])


def data_lines(
    base: Base, splits: dict[str, Split], recipe: Recipe, overrides: Overrides, has_scores: bool
) -> list[str]:
    """The loaders, and the metrics of a detector."""
    readers = dict(num_workers=recipe.workers)
    batches = dict(batch_size=Code('batch'), **readers)
    tests, mode, complete = readers, {}, {}
    if not base.is_segmentor:
        tests, mode = batches, dict(test_mode=True)
        # a last batch of one image would be too small for batch norms; mmdet's sampler of batches
        # with equal shapes would drop whole ones, of a small dataset all
        complete = dict(drop_last=True)
        if base.config.train_dataloader.get('batch_sampler'):
            complete['batch_sampler'] = None
    train = dict(batches, **complete, dataset=train_dataset(base, overrides, has_scores))
    lines = [assign('train_dataloader', train)]
    for name in ('val', 'test'):
        own = {f'{name}_dataloader': dict(tests, dataset=dataset(base, name, **mode))}
        if not base.is_segmentor:
            own[f'{name}_evaluator'] = dict(ann_file=Code(f"index + '{name}.json'"))
        for key, value in own.items():
            same = f'{key} = {key.replace("test_", "val_")}'
            lines.append(assign(key, value) if name in splits else same)
    return lines


def train_dataset(base: Base, overrides: Overrides, has_scores: bool) -> dict[str, Any]:
    if base.is_segmentor:
        return dataset(base, 'train')
    # images without objects teach what is none, and small ones are enlarged
    train = dataset(base, 'train', filter_cfg=dict(filter_empty_gt=False, min_size=0))
    if has_scores:
        train = dict(type='mmeffvit.ScoredCocoDataset', **train)
    if not overrides.balance:
        return train
    inner = dict(type=base.config.train_dataloader.dataset.type) | train
    wrapper = 'mmeffvit.ClassBalancedDataset'
    return dict(_delete_=True, type=wrapper, oversample_thr=OVERSAMPLED, dataset=inner)


def dataset(base: Base, name: str, **more: Any) -> dict[str, Any]:
    images, kind = Code(f"images['{name}']"), {}
    prefix = dict(img=images)
    if base.is_segmentor:
        kind = dict(_delete_=True, type='mmeffvit.PairedSegDataset')
        prefix = dict(img_path=images, seg_map_path=Code('index'))
    return dict(
        **kind,
        data_root=Code('data_root'),
        ann_file=Code(f"index + '{name}.json'"),
        data_prefix=prefix,
        metainfo=dict(classes=Code('classes')),
        **more,
        pipeline=Code('train_pipeline' if name == 'train' else 'test_pipeline'),
    )


def batch_lines(recipe: Recipe) -> list[str]:
    if recipe.processes == 1:
        return [assign('batch', recipe.batch)]
    return [assign('processes', recipe.processes), f'batch = {recipe.batch}  # per process']


def below(images: Path, root: Path) -> str:
    """The folder of images, relative to the dataset if it is in it."""
    if not images.is_relative_to(root.absolute()):
        return f'{images}/'
    inner = images.relative_to(root.absolute()).as_posix()
    return '' if inner == '.' else f'{inner}/'


def changed(settings: Any, change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The nested dicts of a model's config with what ``change`` returns for a key and its value."""
    found = {}
    for key, item in settings.items() if isinstance(settings, Mapping) else ():
        if value := change(key, item) or changed(item, change):
            found[key] = value
    return found


def for_dataset(base: Base, objects: int) -> dict[str, Any]:
    """The numbers of classes of a model, and its limits below ``objects`` in an image, raised."""
    limit = -(-objects // 100) * 100

    def change(key: str, item: Any) -> Any:
        if key == 'num_classes':
            return Code('len(classes)')
        is_low = key in LIMITS and isinstance(item, int) and 0 < item < objects
        return limit if is_low and not base.is_segmentor else None

    model = changed(base.config.model, change)
    if changed(model, lambda key, _: key in LIMITS):
        logger.info(
            f'up to {objects} objects in an image: the limits of the model are raised, see '
            f'{", ".join(LIMITS)} in the config'
        )
    return model


def is_weighted(base: Base, overrides: Overrides, start: Start) -> bool:
    """Whether the loss is weighted by class: rare ones are not learned from scratch otherwise."""
    if base.is_segmentor:
        return overrides.balance or start.is_scratch
    loss = base.config.model.get('bbox_head', {}).get('loss_cls', {})
    return start.is_scratch and loss.get('type') == 'QualityFocalLoss'


def weight_loss(model: dict[str, Any], base: Base) -> None:
    """Weight the classes in the loss of a model, in place."""
    head, name, kind = (
        ('decode_head', 'loss_decode', 'CrossEntropy')
        if base.is_segmentor
        else ('bbox_head', 'loss_cls', 'QualityFocalLoss')
    )
    loss = dict(type=f'mmeffvit.ClassWeighted{kind}', class_weight=Code('class_weights'))
    model.setdefault(head, {})[name] = loss


def class_weight_lines(
    base: Base, data: DataSet, train: Split, overrides: Overrides, start: Start
) -> list[str]:
    if not is_weighted(base, overrides, start):
        return []
    counts: Sequence[int] = train.pixels
    if not base.is_segmentor:
        found = data.count('train')
        counts = [found[label] for label in range(len(data.classes))]
    what = 'pixels' if base.is_segmentor else 'objects'
    return [
        f'# of classes in the loss, from their training {what}',
        assign('class_weights', class_weights(counts)),
    ]


def model_part(
    base: Base, recipe: Recipe, overrides: Overrides, start: Start, objects: int
) -> list[str]:
    """The lines of the model, for images of up to so many ``objects``."""
    model = for_dataset(base, objects)
    if is_weighted(base, overrides, start):
        weight_loss(model, base)
    own = base.config.model.backbone
    unfrozen = dict(frozen_stages=-1, requires_grad=True) if start.is_scratch else {}
    backbone = changed(own, lambda key, _: unfrozen.get(key))
    if not start.keeps_backbone and base.backbone_weights:
        backbone['init_cfg'] = None
    if start.is_scratch and own.get('norm_eval'):
        backbone['norm_eval'] = False  # statistics of random weights are meaningless
    if overrides.freeze is not None:
        backbone['frozen_stages'] = overrides.freeze
    if backbone:
        model['backbone'] = backbone
    if base.is_segmentor and base.config.model.data_preprocessor.get('size'):
        model['data_preprocessor'] = dict(
            size=recipe.crop or (recipe.image_size, recipe.image_size)
        )
    lines = [comment(f'from {start.what}')]
    if start.checkpoint:
        lines.append(assign('load_from', start.checkpoint))
    return [*lines, assign('model', model), '']


def schedule(
    base: Base, recipe: Recipe, overrides: Overrides, teaching: Teaching | None = None
) -> list[str]:
    by_epoch = base.config.train_cfg.type == 'EpochBasedTrainLoop'
    unit = '' if by_epoch else ' * iterations'
    lines = [
        f'# learning rate of the base: {base.optimizer["lr"]:g} for batch size {base.batch_size}',
        *rate_lines(recipe.epochs, recipe.iterations, recipe.rate, by_epoch, overrides.accumulate),
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
    logging = dict(interval=max(1, min(50, recipe.iterations // 2)))
    lines += [
        assign('train_cfg', loop),
        assign('default_hooks', dict(logger=logging, checkpoint=saving)),
        assign('custom_hooks', hooks(base, recipe, teaching)),
    ]
    if get_device() == 'cpu':
        lines.append('sync_bn = None  # only for several processes on GPUs')
    return lines


def rate_lines(
    epochs: int, iterations: int, rate: float, by_epoch: bool = True, accumulate: int = 1
) -> list[str]:
    """The lines of the length of a run and of its learning rate: a warm-up, then a cosine."""
    wrapper: dict[str, Any] = dict(optimizer=dict(lr=Code('rate')))
    if accumulate > 1:
        wrapper['accumulative_counts'] = accumulate
    warm_up = fit_warm_up(epochs * iterations)
    # in epochs where there are any: their length depends on the processes
    start, end = ('warm_up', 'epochs * iterations')
    unit: dict[str, Any] = dict(by_epoch=False)
    if by_epoch:
        start, end, unit = 'warm_up / iterations', 'epochs', dict(convert_to_iter_based=True)
    rise = dict(type='LinearLR', start_factor=0.01, begin=0, end=Code(start), **unit)
    fall = dict(
        type='CosineAnnealingLR',
        begin=Code(start),
        end=Code(end),
        T_max=Code(f'{end} - {start}'),
        eta_min=Code(f'{FLOOR} * rate'),
        **unit,
    )
    return [
        assign('epochs', epochs),
        f'iterations = {iterations}  # of an epoch',
        f'warm_up = {warm_up}  # iterations',
        assign('rate', rate),
        assign('optim_wrapper', wrapper),
        assign('param_scheduler', [rise, fall] if warm_up else [fall]),
    ]


def hooks(base: Base, recipe: Recipe, teaching: Teaching | None = None) -> list[dict]:
    """EMA weights, the end of mosaics, the end of training, a teacher."""
    average = dict(
        type='mmeffvit.EMAHook',
        momentum=recipe.ema_momentum,
        begin_iter=Code('warm_up'),
        update_buffers=True,
        priority=49,  # before the hook that saves
    )
    wanted = [average]
    if base.last_pipeline and recipe.has_mosaic:
        start = Code(f'max(0, epochs - {recipe.last_epochs})')
        last = Code('last_pipeline')
        wanted.append(dict(type='PipelineSwitchHook', switch_epoch=start, switch_pipeline=last))
    if recipe.patience:
        stop = dict(monitor=base.metric, rule='greater', patience=recipe.patience)
        wanted.append(dict(type='mmeffvit.EarlyStoppingHook', **stop))  # patience in validations
    if teaching and teaching.teacher:
        source = dict(teacher=Code('teacher'), checkpoint=Code('teacher_checkpoint'))
        wanted.append(dict(type='mmeffvit.TeacherHook', **source, losses=teaching.losses))
    return wanted
