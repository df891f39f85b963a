"""Metadata of an exported file: what a program needs to prepare inputs and read outputs."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import TRANSFORMS
from torch import nn

from mmeffvit.config.datasets import class_of, image_pipeline, name_of
from mmeffvit.config.values import dicts_in
from mmeffvit.deploy.runtime.metadata import FIELDS, NO_RESIZE
from mmeffvit.errors import UserError
from mmeffvit.utils.schema import check_fields
from mmeffvit.utils.text import check_names, listed
from mmeffvit.version import __version__

from .base import Graph

PACKAGES = ('mmcv', 'mmdet', 'mmseg', 'mmpretrain', 'mmeffvit')
STAGES = {  # transforms that files can apply, and their order
    'LoadImageFromFile': 1,
    'Resize': 2, 'ResizeEdge': 2,
    'FloorToMultiple': 3, 'ResizeToMultiple': 3, 'CenterCrop': 4,
    'Pad': 5,
    'PackDetInputs': 6, 'PackSegInputs': 6, 'PackInputs': 6,
}  # fmt: skip
LOADERS = (('cv2', 'color'), ('pillow', 'color_ignore_orientation'))
OPTIONS: dict[str, dict[str, tuple]] = {  # the supported values of options
    'LoadImageFromFile': dict(to_float32=(False,)),
    'ResizeEdge': dict(edge=('short',)),
    'ResizeToMultiple': dict(interpolation=(None, 'bilinear')),
    'CenterCrop': dict(auto_pad=(False,)),
    'Pad': dict(padding_mode=('constant',)),
}


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
        'pad_value': str(preprocessing.pad_value),
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
    needs_resize: bool = True,
) -> dict[str, str]:
    """Classes, test settings and text of a config, as strings by name.

    ``dataset_meta`` has `classes` and `palette` of the training data, ``category_ids`` are COCO's
    by label, and ``label_offset`` is 1 if 0 is no class in the dataset's own label maps. The test
    pipeline may have any transforms unless a file ``needs_resize``; a backbone does not.
    """
    test_cfg = getattr(model, 'test_cfg', None) or {}  # classifiers have none
    test_cfg = test_cfg.get('rcnn', test_cfg)
    described = {
        'config': Path(config.filename).name if config.filename else '',
        'config_text': config.pretty_text,
        'score_threshold': str(test_cfg.get('score_thr', 0.0)),
        'mask_threshold': str(test_cfg.get('mask_thr_binary', 0.5)),
        'label_offset': str(label_offset),
    }
    with nullcontext() if needs_resize else suppress(UserError):
        described['resize'] = json.dumps(resize_of(config))
    if category_ids:
        described['category_ids'] = json.dumps(list(category_ids))
    if 'nms' in test_cfg:
        nms = test_cfg['nms']
        described['iou_threshold'] = str(nms.get('iou_threshold', 0.5))
        described['class_agnostic'] = json.dumps(bool(nms.get('class_agnostic', False)))
        if 'max_per_img' in test_cfg:
            described['max_per_img'] = json.dumps(test_cfg['max_per_img'])
    if (head := getattr(model, 'decode_head', None)) is not None:
        described['align_corners'] = json.dumps(bool(head.align_corners))
        if head.out_channels == 1:
            described['label_threshold'] = json.dumps(head.threshold)
    described['classes'] = json.dumps(check_names(dataset_meta.get('classes') or (), 'the dataset'))
    palette = dataset_meta.get('palette')
    if isinstance(palette, list | tuple):  # not the name of one
        described['palette'] = json.dumps([list(map(int, color)) for color in palette])
    return described


def resize_of(config: Config) -> dict[str, Any]:
    """Settings of a test pipeline, for :func:`mmeffvit.deploy.runtime.resizing.resize`.

    Returns:
        `decoder` of image files; `scale` (width, height) or None, `keep_ratio`, `truncated` for
        sides that are truncated instead of rounded, `interpolation`, `backend`; `divisor`, whose
        multiples the sides are resized to, and `rounding`, 'down' or 'up'; `pad`, width and height
        to which smaller images are padded, or None, `pad_to_square`, `pad_divisor`, whose
        multiples they are padded to, `pad_value`, a color in BGR; of classifiers `short_side`, to
        which the shorter side is resized, and `crop`, width and height of the center that is
        cropped then, or None.

    Raises:
        UserError: If a transform, an option or their order is not supported.
    """
    found = dict(NO_RESIZE)
    before = ''
    for step in image_pipeline(config):
        name = check_transform(step, config)
        if STAGES[name] <= STAGES.get(before, 0):
            raise unsupported(step, config, f'after {before}')
        before = name
        found |= {k: step[k] for k in ('keep_ratio', 'truncated', 'interpolation', 'backend')
                  if k in step and name in ('Resize', 'ResizeEdge')}  # fmt: skip
        if name == 'LoadImageFromFile':
            found['decoder'] = step.get('imdecode_backend', 'cv2')
        elif name == 'Resize':
            found['scale'] = pair(step['scale'])
        elif name == 'ResizeEdge':
            found['short_side'] = step['scale']
        elif name == 'CenterCrop':
            found['crop'] = pair(step['crop_size'])
        elif name == 'FloorToMultiple':
            found.update(divisor=step.get('divisor', 32), rounding='down')
        elif name == 'ResizeToMultiple':
            found.update(divisor=step.get('size_divisor', 32), rounding='up')
        elif name == 'Pad':
            found['pad'] = step.get('size')
            found['pad_to_square'] = step.get('pad_to_square', False)
            found['pad_divisor'] = step.get('size_divisor') or 1
            found['pad_value'] = color_of(step.get('pad_val', 0))
    check_fields(dict(resize=found), FIELDS, 'the test pipeline')
    return found


def check_transform(step: Mapping[str, Any], config: Config) -> str:
    """The name of a transform of a test pipeline; UserError if files cannot replace it."""
    cls = class_of(step, config.get('default_scope'), TRANSFORMS)
    name = getattr(cls, '__name__', '')
    if name not in STAGES or cls.__module__.partition('.')[0] not in PACKAGES:
        raise unsupported(step, config)
    if name in ('ResizeEdge', 'CenterCrop') and config.get('default_scope') != 'mmpretrain':
        raise unsupported(step, config, 'except in classifiers')
    if name == 'Pad' and config.get('default_scope') == 'mmseg':
        # mmseg stretches the padding over the image, too
        raise unsupported(step, config, 'in segmentors: set model.data_preprocessor.test_cfg')
    if name == 'Resize' and step.get('scale') is None:
        raise unsupported(step, config, 'with scale_factor')
    if name == 'LoadImageFromFile':
        given = step.get('imdecode_backend', 'cv2'), step.get('color_type', 'color')
        if given not in LOADERS:
            raise unsupported(step, config, f'with imdecode_backend={given[0]!r} and '
                              f'color_type={given[1]!r}')  # fmt: skip
    for option, value in step.items():
        if option in OPTIONS.get(name, {}) and value not in OPTIONS[name][option]:
            raise unsupported(step, config, f'with {option}={value!r:.80}')
    return name


def unsupported(step: Mapping[str, Any], config: Config, how: str = '') -> UserError:
    """The error for a transform that would be missing from a file."""
    place = next((key for key, found in dicts_in(dict(config)) if found is step), 'test pipeline')
    return UserError(
        f'an exported file cannot apply {name_of(step)} {how}'.rstrip() + f' ({place} in '
        f'{config.filename}), so it would see other pixels than the model; it can apply '
        f'{listed(list(STAGES), len(STAGES))}, in this order'
    )


def color_of(value: Any) -> Any:
    """The color of mmcv's ``Pad``; OpenCV pads only the first channel with a single float."""
    value = value.get('img', 0) if isinstance(value, Mapping) else value
    return (value, 0, 0) if isinstance(value, float) else value


def pair(size: int | Sequence[int]) -> Sequence[int]:
    """Width and height, from one number for both or from two."""
    return (size, size) if isinstance(size, int) else size
