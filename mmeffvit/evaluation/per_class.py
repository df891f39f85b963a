"""Per-class AP or IoU of predictions on the disk, by the hosts' own metrics."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, METRICS, TRANSFORMS

from mmeffvit.checkpoints.safe_globals import read_pickle
from mmeffvit.checks.run import check_data
from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import build_unread, datasets_of
from mmeffvit.config.load import open_config
from mmeffvit.errors import UserError
from mmeffvit.utils.images import read_labels
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.reading import read_json

from .coco_results import check_detections, from_samples

KINDS = {'bbox': 'box AP', 'segm': 'mask AP'}


@dataclass
class ClassValues:
    """One metric of every class.

    Args:
        metric: Its name in the papers' tables.
        mean: Over the classes, in percent, as the host gives it.
        values: By class, in percent; NaN for a class without ground truth.
    """

    metric: str
    mean: float
    values: dict[str, float]


def per_class(
    config_path: str, results: Path, cfg_options: Mapping[str, Any] | None = None
) -> list[ClassValues]:
    """Measure predictions with the config's test metric, class by class.

    Args:
        config_path: The config, of either host, with its test data at hand.
        results: ``FILE.pkl`` of ``tools/test.py --out``, or what ``tools/predict.py --out`` wrote:
            COCO results (``.json``) or a folder of label maps.
        cfg_options: Dotted keys and values that replace the config's.

    Raises:
        UserError: If the results cannot be read or are not of the config's test data.
    """
    config = open_config(config_path, cfg_options)
    scope = config.default_scope
    if not results.exists():
        raise UserError(f'results {str(results)!r} do not exist')
    check_data(config, ('test',))
    measure = measure_detections if scope == 'mmdet' else measure_label_maps
    with isolated(scope), quiet():
        return measure(config, results)


def measured_dataset(config: Config) -> dict[str, Any]:
    """The one data set to test on.

    Raises:
        UserError: If there are several.
    """
    found = datasets_of(config, 'test')
    if len(found) != 1:
        raise UserError(f'{config.filename} tests on {len(found)} data sets; one can be measured')
    return deepcopy(dict(found[0]))


def metric_settings(config: Config, kind: str) -> dict[str, Any]:
    """The config's own metric of a type, so that its thresholds hold."""
    given = config.test_evaluator
    for settings in given if isinstance(given, list | tuple) else [given]:
        if str(settings['type']).split('.')[-1] == kind:
            return {**deepcopy(dict(settings)), 'outfile_prefix': None, 'format_only': False}
    raise UserError(f'{config.filename} has no {kind} in test_evaluator')


def measure_detections(config: Config, results: Path) -> list[ClassValues]:
    """Box AP, and mask AP where the results have masks."""
    dataset = build_unread(measured_dataset(config))
    settings = metric_settings(config, 'CocoMetric')
    settings['ann_file'] = settings.get('ann_file') or dataset.ann_file
    metric = METRICS.build({**settings, 'metric': 'bbox'})
    classes, coco = dataset.metainfo['classes'], metric._coco_api
    category_ids = coco.get_cat_ids(cat_names=classes)
    samples = read_detections(results, category_ids, coco.imgs)
    if not any(len(sample['pred_instances']['scores']) for sample in samples):
        raise UserError(f'{results} holds no detection')
    with_masks = all('masks' in sample['pred_instances'] for sample in samples)
    tables = []
    for kind in ('bbox', 'segm') if with_masks else ('bbox',):
        metric = METRICS.build({**settings, 'metric': kind, 'classwise': True})
        metric.dataset_meta = dataset.metainfo
        metric.process(None, deepcopy(samples))
        found = metric.evaluate(len(samples))
        names = [category['name'] for category in coco.load_cats(category_ids)]
        values = {name: 100 * float(found[f'coco/{name}_precision']) for name in names}
        tables.append(ClassValues(KINDS[kind], 100 * found[f'coco/{kind}_mAP'], values))
    return tables


def read_detections(
    path: Path, category_ids: list[int], images: Mapping[int, Mapping]
) -> list[dict[str, Any]]:
    """Samples as the runner gives them to a metric.

    Raises:
        UserError: If the file is of another kind, or of images that the annotation file lacks.
    """
    if path.suffix in ('.pkl', '.pickle'):
        samples = read_samples(path, 'pred_instances')
        rows = from_samples(samples, category_ids, path)
    elif path.suffix == '.json':
        rows = read_json(path)
        samples = samples_of(path, rows, category_ids, images)
    else:
        raise UserError(f'results of a detector are a .pkl or a .json file, not {str(path)!r}')
    strangers = [s['img_id'] for s in samples if s['img_id'] not in images]
    if strangers:
        raise UserError(
            f'{path} has results of {len(strangers)} images that the test annotations lack, such '
            f'as id {strangers[0]}: predict on the images of the test data'
        )
    check_detections(rows, images, category_ids, path)
    return samples


def read_samples(path: Path, key: str) -> list[dict[str, Any]]:
    samples = read_pickle(path)
    known = isinstance(samples, list) and samples
    if not known or not all(isinstance(sample, dict) and key in sample for sample in samples):
        raise UserError(f'{path} holds no predictions of this kind of model: no {key!r} in it')
    return samples


def samples_of(
    path: Path, rows: Any, category_ids: list[int], images: Mapping[int, Mapping]
) -> list[dict[str, Any]]:
    """COCO results, image by image; images without any are not in it."""
    try:
        by_image = defaultdict(list)
        for row in rows:
            by_image[row['image_id']].append(row)
        labels = {category: label for label, category in enumerate(category_ids)}
        return [
            sample_of(image_id, found, labels, images.get(image_id, {}))
            for image_id, found in by_image.items()
        ]
    except (KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f'{path} holds no COCO results of these classes ({error!r})') from error


def sample_of(
    image_id: int, rows: list[dict], labels: Mapping[int, int], image: Mapping[str, Any]
) -> dict[str, Any]:
    boxes = torch.tensor([row['bbox'] for row in rows], dtype=torch.float64)  # (N, 4)
    boxes[:, 2:] += boxes[:, :2]
    instances = dict(
        bboxes=boxes,
        scores=torch.tensor([row['score'] for row in rows], dtype=torch.float64),
        labels=torch.tensor([labels[row['category_id']] for row in rows]),
    )
    if all('segmentation' in row for row in rows):
        instances['masks'] = [row['segmentation'] for row in rows]
    size = (image.get('height', 0), image.get('width', 0))
    return dict(img_id=image_id, ori_shape=size, pred_instances=instances)


def measure_label_maps(config: Config, results: Path) -> list[ClassValues]:
    """IoU."""
    settings = metric_settings(config, 'IoUMetric')
    settings.pop('outfile_prefix')
    dataset = DATASETS.build(measured_dataset(config))
    metric = METRICS.build(settings)
    metric.dataset_meta = dataset.metainfo
    classes = dataset.metainfo['classes']
    if results.is_dir():
        for sample in read_label_maps(results, dataset):
            metric.process(None, [sample])
    else:
        metric.process(None, read_samples(results, 'pred_sem_seg'))
    areas = [sum(parts) for parts in zip(*metric.results, strict=True)]
    values = 100 * np.asarray(metric.total_area_to_metrics(*areas, metrics=['mIoU'])['IoU'])
    by_class = dict(zip(classes, values.tolist(), strict=True))
    return [ClassValues('IoU', float(np.nanmean(values)), by_class)]


def read_label_maps(folder: Path, dataset: BaseDataset) -> Iterator[dict[str, Any]]:
    """Predicted and true labels, (1, H, W) each, of every image of the set.

    Raises:
        UserError: If one is missing, there twice, or of another size than the image.
    """
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
        true = load(info)['gt_seg_map'].astype(np.int64)
        # 0 is no class where the set counts from 1, and -1 equals none
        labels = read_labels(paths[0]).astype(np.int64) - bool(dataset.reduce_zero_label)
        if labels.shape != true.shape:
            raise UserError(f'{paths[0]} is of {labels.shape} pixels, its annotation {true.shape}')
        yield dict(
            pred_sem_seg=dict(data=torch.from_numpy(labels)[None]),
            gt_sem_seg=dict(data=torch.from_numpy(true)[None]),
        )
