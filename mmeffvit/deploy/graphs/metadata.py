"""Metadata of an exported file: what a program needs to prepare inputs and read outputs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import nn

from mmeffvit.config.datasets import eval_dataset, name_of
from mmeffvit.deploy.runtime.metadata import NO_RESIZE
from mmeffvit.utils.text import check_names
from mmeffvit.version import __version__

from .base import Graph


def model_metadata(
    graph: Graph, opset: int | None = None, layout: str = 'BCHW float32'
) -> dict[str, str]:
    """Task, input and versions of a graph, as strings by name; some formats have no opset."""
    preprocessing = graph.preprocessing
    described = {
        'task': graph.task,
        'outputs': json.dumps(graph.output_names),
        'input_layout': layout,
        'input_colors': 'RGB, 0 to 255',
        'mean': json.dumps(preprocessing.mean),
        'std': json.dumps(preprocessing.std),
        'network_colors': 'BGR' if preprocessing.swap_channels else 'RGB',
        'size_divisor': str(preprocessing.size_divisor),
        'mmeffvit_version': __version__,
        'torch_version': torch.__version__,
    }
    return described if opset is None else {**described, 'opset': str(opset)}


def config_metadata(
    config: Config,
    model: nn.Module,
    dataset_meta: Mapping[str, Any],
    *,
    category_ids: Sequence[int] = (),
    label_offset: int = 0,
) -> dict[str, str]:
    """Classes, test settings and text of a config, as strings by name.

    Args:
        config: The config of the model.
        model: The model.
        dataset_meta: `classes` and `palette` of the training data.
        category_ids: COCO's category ids by label, if they are known.
        label_offset: 1 if 0 is no class in the dataset's own label maps, otherwise 0.
    """
    test_cfg = getattr(model, 'test_cfg', None) or {}  # classifiers have none
    test_cfg = test_cfg.get('rcnn', test_cfg)
    described = {
        'config': Path(config.filename).name if config.filename else '',
        'config_text': config.pretty_text,
        'resize': json.dumps(resize_of(config)),
        'score_threshold': str(test_cfg.get('score_thr', 0.0)),
        'mask_threshold': str(test_cfg.get('mask_thr_binary', 0.5)),
        'label_offset': str(label_offset),
    }
    if category_ids:
        described['category_ids'] = json.dumps(list(category_ids))
    if 'nms' in test_cfg:
        described['iou_threshold'] = str(test_cfg['nms'].get('iou_threshold', 0.5))
    described['classes'] = json.dumps(check_names(dataset_meta.get('classes') or (), 'the dataset'))
    palette = dataset_meta.get('palette')
    if isinstance(palette, list | tuple):  # not the name of one
        described['palette'] = json.dumps(palette)
    return described


def resize_of(config: Config) -> dict[str, Any]:
    """Resize settings of the test pipeline of a config.

    Returns:
        `scale` (width, height) or None, `keep_ratio`, `truncated` for sides that are truncated
        instead of rounded, `interpolation`, `backend`; `divisor`, whose multiples the sides are
        resized to, and `rounding`, 'down' or 'up'; `pad`, width and height to which smaller images
        are padded with `pad_value`, or None; of classifiers `short_side`, to which the shorter side
        is resized, and `crop`, width and height of the center that is cropped then, or None.
    """
    found = dict(NO_RESIZE)
    for step in eval_dataset(config).get('pipeline') or ():
        name = name_of(step)
        if name == 'Resize' and step.get('scale') is not None:
            found.update({k: step[k] for k in found if k in step})
            found['scale'] = pair(found['scale'])
        elif name == 'ResizeEdge' and step.get('edge', 'short') == 'short':
            found.update({k: step[k] for k in ('backend', 'interpolation') if k in step})
            found['short_side'] = step['scale']
        elif name == 'CenterCrop':
            found['crop'] = pair(step['crop_size'])
        elif name == 'FloorToMultiple':
            found.update(divisor=step.get('divisor', 32), rounding='down')
        elif name == 'ResizeToMultiple':
            found.update(divisor=step.get('size_divisor', 32), rounding='up')
        elif name == 'Pad' and step.get('size') is not None:
            found['pad'] = step['size']
            value = step.get('pad_val', 0)
            found['pad_value'] = value.get('img', 0) if isinstance(value, Mapping) else value
    return found


def pair(size: int | Sequence[int]) -> Sequence[int]:
    """Width and height, from one number for both or from two."""
    return (size, size) if isinstance(size, int) else size
