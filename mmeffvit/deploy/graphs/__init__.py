"""Export graphs for detectors, segmentors, classifiers and backbones."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .base import Graph

NMS = {'type', 'iou_threshold', 'class_agnostic', 'split_thr'}  # settings that files apply
# part of the model, its class or base class, and module and class of the graph; the first match is
# used. Names instead of classes, so that neither mmdet nor mmseg needs to be imported.
GRAPHS = (
    ('roi_head', 'StandardRoIHead', 'two_stage', 'MaskRCNNGraph'),
    ('bbox_head', 'DeformableDETRHead', 'detr', 'DeformableDETRGraph'),
    ('bbox_head', 'SSDLiteHead', 'dense', 'SSDLiteGraph'),
    ('bbox_head', 'LightHead', 'dense', 'LightGraph'),
    ('bbox_head', 'RTMDetHead', 'dense', 'DenseGraph'),
    ('bbox_head', 'RetinaHead', 'dense', 'DenseGraph'),
    ('decode_head', 'BaseDecodeHead', 'plain', 'SegmentorGraph'),
    ('head', 'ClsHead', 'plain', 'ClassifierGraph'),
)


def make_graph(model: nn.Module) -> Graph:
    """The export graph of a model of mmdet, mmseg or mmpretrain, ready to be traced.

    Args:
        model: The trained model, not fused; it is not changed.

    Raises:
        UserError: If there is no graph for this model.
    """
    for part, name, module, graph in GRAPHS:
        names = {cls.__name__ for cls in type(getattr(model, part, None)).__mro__}
        if name in names and 'RTMDetInsHead' not in names:  # which has masks
            check_test_cfg(getattr(model, 'test_cfg', None) or {})
            graph_type = getattr(import_module(f'{__name__}.{module}'), graph)
            return graph_type(model).eval()
    parts = ', '.join(f'{part} {name}' for part, name, *_ in GRAPHS)
    heads = {
        part: type(getattr(model, part)).__name__
        for part in ('bbox_head', 'roi_head', 'decode_head', 'head')
        if getattr(model, part, None) is not None
    }
    raise UserError(
        f'{type(model).__name__} with {heads or "no head"} cannot be exported; there '
        f'are graphs for {parts}'
    )


def check_test_cfg(settings: Mapping[str, Any]) -> None:
    """Reject settings that no graph has."""
    for part in ('', 'rpn', 'rcnn'):
        found = settings.get(part) or {} if part else settings
        nms, name = found.get('nms') or {}, '.'.join(filter(None, ('model.test_cfg', part)))
        if (kind := nms.get('type', 'nms')) != 'nms':
            raise UserError(f"{name}.nms.type is {kind!r}; only 'nms' can be exported")
        if nms and not {'iou_threshold'} <= set(nms) <= NMS:
            raise UserError(
                f'{name}.nms is {dict(nms)}; only these can be exported: {listed(sorted(NMS))}'
            )
        counts = dict(max_per_img=found.get('max_per_img', 1))
        if nms and part != 'rcnn':
            counts['nms_pre'] = found.get('nms_pre', -1)  # -1, for all, is mmdet's default
        for count, value in counts.items():
            if value < 1:
                raise UserError(f'{name}.{count} is {value}; give 1 or more to export it')
        if not part and (least := found.get('min_bbox_size', 0)) > 0:
            # of pixels of the original image, which files do not know
            raise UserError(f'{name}.min_bbox_size is {least}; give 0 to export it')
