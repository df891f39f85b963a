"""Per-class AP or IoU of saved predictions, by the metrics of mmdet and mmseg; table and chart."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, METRICS, TRANSFORMS

from mmeffvit.analysis.coco_errors import MAX_DETECTIONS, encode_masks, load_detections
from mmeffvit.analysis.coco_results import (
    category_ids,
    read_detections,
    read_ground_truth,
    read_samples,
    select,
    well_formed,
)
from mmeffvit.analysis.figures import save_figure
from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import build_unread, datasets_of, settings_of
from mmeffvit.errors import UserError
from mmeffvit.train.checks.data import check_data
from mmeffvit.train.engine.user_errors import building
from mmeffvit.utils.files import write_file
from mmeffvit.utils.images import read_labels
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import counted, markdown, reason
from mmeffvit.zoo.source import find_source

KINDS = {'bbox': 'box AP', 'segm': 'mask AP'}
MAX_ROWS = 50  # classes in one column of bars


@dataclass
class ClassValues:
    """Values of a metric for every class, in percent."""

    metric: str  # its name in papers
    mean: float  # over the classes of mmdet or mmseg
    values: dict[str, float]  # by class; NaN for a class without ground truth


def per_class(
    config_path: str, results: Path, out_dir: Path, cfg_options: Mapping[str, Any] | None = None
) -> list[ClassValues]:
    """Evaluate predictions with the config's test metric per class, and write a table and a chart.

    Args:
        config_path: A config of mmdet or mmseg, or a saved model; its test data must be available.
        results: ``FILE.pkl`` of ``mmeffvit test --out``, or the output of ``mmeffvit predict
            --out``: COCO results (``.json``) or a folder of label maps.
        out_dir: Output folder of ``per_class.md`` and ``per_class.png``.
        cfg_options: Dotted keys and values that override the config's.

    Raises:
        UserError: If the results cannot be read or are not of the config's test data.
    """
    config = find_source(config_path, cfg_options).config
    scope = config.default_scope
    if not results.exists():
        raise UserError(f'results {str(results)!r} do not exist')
    check_data(config, ('test',))
    measure = measure_detections if scope == 'mmdet' else measure_label_maps
    with isolated(scope), quiet():
        tables = measure(config, results)
    write_file(out_dir / 'per_class.md', to_markdown(tables))
    draw_bars(tables, f'{Path(config_path).stem}, {results.name}', out_dir / 'per_class.png')
    return tables


def measured_dataset(config: Config) -> dict[str, Any]:
    """The only test dataset of a config."""
    found = datasets_of(config, 'test')
    if len(found) != 1:
        raise UserError(f'{config.filename} has {len(found)} test datasets; only one is supported')
    return deepcopy(dict(found[0]))


def metric_settings(config: Config, kind: str) -> dict[str, Any]:
    """The settings of the config's own metric of a type."""
    found = next(settings_of(config.get('test_evaluator'), kind), None)
    if found is None:
        raise UserError(f'{config.filename} has no {kind} in test_evaluator')
    return {**deepcopy(dict(found)), 'format_only': False}


def measure_detections(config: Config, results: Path) -> list[ClassValues]:
    """Box AP, and mask AP if the results have masks."""
    from mmeffvit.train.engine.coco_metric import fast_eval  # needs mmdet

    dataset = build_unread(measured_dataset(config))
    settings = metric_settings(config, 'CocoMetric')
    truth = read_ground_truth(settings.get('ann_file') or dataset.ann_file)
    classes = dataset.metainfo['classes']
    found = read_detections(results, truth, classes)
    categories = sorted(category_ids(truth, classes))
    for row in found:
        if row.get('bbox') is None:
            raise UserError(f'{results} has a detection without bbox: {row!r:.80}')
        if row['category_id'] not in categories:
            raise UserError(
                f'{results} has category_id {row["category_id"]}, which is not one of the classes'
            )
    with_masks = all(row.get('segmentation') for row in found)
    tables = []
    for kind in ('bbox', 'segm') if with_masks else ('bbox',):
        chosen = select(found, kind)
        if kind == 'segm':
            encode_masks(truth, chosen)
        metric = fast_eval()(truth, load_detections(truth, chosen), kind)
        metric.params.catIds, metric.params.maxDets = categories, [MAX_DETECTIONS]
        if settings.get('iou_thrs') is not None:
            metric.params.iouThrs = np.atleast_1d(settings['iou_thrs'])
        metric.evaluate()
        metric.accumulate()
        precision = metric.eval['precision'][:, :, :, 0, 0]  # (IoUs, recalls, classes)
        values = 100 * np.where(precision < 0, np.nan, precision).mean(axis=(0, 1))
        names = [truth.cats[category]['name'] for category in categories]
        by_class = dict(zip(names, values.tolist(), strict=True))
        tables.append(ClassValues(KINDS[kind], float(np.nanmean(values)), by_class))
    return tables


def measure_label_maps(config: Config, results: Path) -> list[ClassValues]:
    """IoU of label maps."""
    settings = metric_settings(config, 'IoUMetric')
    with building(config):
        dataset, metric = DATASETS.build(measured_dataset(config)), METRICS.build(settings)
    metric.dataset_meta = dataset.metainfo
    classes = dataset.metainfo['classes']
    with well_formed(results):
        maps = read_label_maps(results, dataset) if results.is_dir() else None
        for sample in maps or read_samples(results, 'pred_sem_seg'):
            check_label_maps(sample, len(classes))
            for key in ('pred_sem_seg', 'gt_sem_seg'):  # mmseg would read labels above 255 as bytes
                sample[key]['data'] = sample[key]['data'].long()
            metric.process(None, [sample])
    areas = [sum(parts) for parts in zip(*metric.results, strict=True)]
    values = 100 * np.asarray(metric.total_area_to_metrics(*areas, metrics=['mIoU'])['IoU'])
    by_class = dict(zip(classes, values.tolist(), strict=True))
    return [ClassValues('IoU', float(np.nanmean(values)), by_class)]


def check_label_maps(sample: Mapping[str, Any], num_classes: int) -> None:
    """Raise ValueError if these are not predicted and true labels; mmseg ignores other classes."""
    found, true = (sample[key]['data'] for key in ('pred_sem_seg', 'gt_sem_seg'))
    are_integers = not any(x.is_floating_point() or x.is_complex() for x in (found, true))
    if found.shape != true.shape or found.dim() != 3 or len(found) != 1 or not are_integers:
        raise ValueError(f'a label map of {tuple(found.shape)} {found.dtype}, for one of '
                         f'{tuple(true.shape)} {true.dtype}')  # fmt: skip
    # as int: a uint8 tensor is never >= -1, which it reads as 255
    if found.numel() and not (int(found.min()) >= -1 and found.max() < num_classes):
        raise ValueError(f'labels from {found.min()} to {found.max()} of {num_classes} classes')


def read_label_maps(folder: Path, dataset: BaseDataset) -> Iterator[dict[str, Any]]:
    """Predicted and true labels, (1, H, W) each, of every image of the dataset."""
    found = defaultdict(list)
    for path in folder.rglob('*.png'):
        found[path.stem].append(path)
    steps = [step for step in dataset.pipeline.transforms if 'LoadAnnotations' in str(step)]
    load = steps[0] if steps else TRANSFORMS.build(dict(type='LoadAnnotations'))
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        paths = found.get(Path(info['img_path']).stem, [])
        if len(paths) != 1:
            raise UserError(
                f'{folder} has {len(paths)} label maps for {info["img_path"]}; one is needed for '
                f'each of the {len(dataset)} test images'
            )
        try:
            true = load(info)['gt_seg_map'].astype(np.int64)
            labels = read_labels(paths[0]).astype(np.int64)
        except Exception as error:  # decoders raise various exceptions
            raise UserError(
                f'{paths[0]} or the annotation of {info["img_path"]} cannot be read: '
                f'{reason(error)}'
            ) from error
        # if classes start at 1, 0 becomes -1, which is no class
        labels -= bool(dataset.reduce_zero_label)
        if labels.shape != true.shape:
            raise UserError(f'{paths[0]} has {labels.shape} pixels, its annotation {true.shape}')
        yield dict(
            pred_sem_seg=dict(data=torch.from_numpy(labels)[None]),
            gt_sem_seg=dict(data=torch.from_numpy(true)[None]),
        )


def to_markdown(tables: Sequence[ClassValues]) -> str:
    """One column per metric, in percent; cells of classes without ground truth are empty."""
    heading = ['class', *(f'{table.metric}, %' for table in tables)]
    lines = [['**mean**', *(f'{table.mean:.1f}' for table in tables)]]
    for name in tables[0].values:
        values = [table.values[name] for table in tables]
        lines.append([name, *('' if math.isnan(v) else f'{v:.1f}' for v in values)])
    return markdown(heading, lines, numbers=True)


def draw_bars(tables: Sequence[ClassValues], title: str, path: Path) -> None:
    """Bars of the classes with ground truth, sorted by the first metric, best on top."""
    first = tables[0].values
    names = [n for n in first if not all(math.isnan(table.values[n]) for table in tables)]
    names.sort(key=lambda name: -1.0 if math.isnan(first[name]) else first[name])
    columns = max(1, math.ceil(len(names) / MAX_ROWS))
    rows = math.ceil(len(names) / columns)
    height = 1.6 + rows * (0.12 + 0.1 * len(tables))
    figure = Figure(figsize=(max(7, 5 * columns), height), layout='constrained')
    means = ', '.join(f'mean {table.metric} {table.mean:.1f} %' for table in tables)
    hidden = len(first) - len(names)
    note = f'; not shown: {counted(hidden, "class")} without ground truth' if hidden else ''
    figure.suptitle(f'{title}\n{means}{note}', fontsize='medium')
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for column, ax in enumerate(axes):
        end = len(names) - column * rows
        shown = names[max(end - rows, 0) : end]
        for number, table in enumerate(tables):
            shift = (number - (len(tables) - 1) / 2) * 0.8 / len(tables)
            positions = [position - shift for position in range(len(shown))]
            bars = ax.barh(
                positions, [table.values[name] for name in shown], 0.8 / len(tables),
                label=table.metric, color=f'C{number}',
            )  # fmt: skip
            ax.bar_label(bars, fmt='%.1f', padding=2, fontsize='x-small')
            ax.axvline(table.mean, color=f'C{number}', linestyle=':', linewidth=1)
        ax.set_yticks(range(len(shown)), shown, fontsize='small')
        ax.set_ylim(-0.6, len(shown) - 0.4)
        ax.set_xlim(0, 108)
        ax.set_xlabel('percent')
    if len(tables) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc='outside lower center', ncols=2, fontsize='small')
    save_figure(figure, path)
