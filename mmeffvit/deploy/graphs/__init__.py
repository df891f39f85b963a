"""Export graphs for detectors, segmentors, classifiers and backbones."""

from importlib import import_module

from torch import nn

from mmeffvit.errors import UserError

from .base import Graph

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
        if name in names:
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
