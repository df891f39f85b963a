"""One forward pass of a model on one image, without post-processing."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

import torch
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmeffvit.config.datasets import meta_of
from mmeffvit.utils.modules import forwards

MAX_MASKS = 100  # boxes that mmdet gives to a mask head in mode='tensor'


def run_backbone(model: nn.Module, *, shape: tuple[int, int]) -> None:
    model(blank_image(model, shape))


def blank_image(model: nn.Module, shape: tuple[int, int]) -> Tensor:
    return torch.zeros(1, 3, *shape, device=next(model.parameters()).device)


def run_model(model: nn.Module, *, shape: tuple[int, int], proposals: int) -> None:
    """Run the modules that are used at inference, a second stage with ``proposals`` boxes."""
    image = blank_image(model, shape)
    if hasattr(model, 'head'):
        model(image, mode='tensor')
        return
    samples = data_samples(shape, type(model))
    if not hasattr(model, 'roi_head'):
        model(image, samples, mode='tensor')
        return
    maps = model.extract_feat(image)
    boxes = proposal_boxes(model, maps, samples, proposals)
    with empty_regions(model.roi_head):
        run_second_stage(model.roi_head, maps, boxes, samples)


def run_second_stage(
    roi_head: nn.Module, maps: tuple[Tensor, ...], boxes: Any, samples: list[Any]
) -> None:
    """Run as ``mode='tensor'`` does, but with the given boxes instead of the RPN's.

    The stages of a cascade run separately: between them, boxes depend on values, and in this mode
    mmdet gives all boxes to the mask heads, which get the detected ones at inference.
    """
    names = list(signature(roi_head._bbox_forward).parameters)
    if names[:3] != ['stage', 'x', 'rois'] or hasattr(boxes, 'features'):
        roi_head.forward(maps, [boxes], samples)
        return
    rois = maps[0].new_zeros(len(boxes), 5)
    for stage in range(roi_head.num_stages):
        roi_head._bbox_forward(stage, maps, rois)
        if roi_head.with_mask:
            roi_head._mask_forward(stage, maps, rois[:MAX_MASKS])


def data_samples(shape: tuple[int, int], model: type) -> list[Any]:
    """The data sample of the image, without instances."""
    if model.__module__.startswith('mmseg'):
        from mmseg.structures import SegDataSample as DataSample
    else:
        from mmdet.structures import DetDataSample as DataSample
    sample = DataSample(metainfo=meta_of(shape))
    # some heads access targets that they do not need
    sample.gt_instances = InstanceData(
        bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long)
    )
    return [sample]


def proposal_boxes(
    model: nn.Module, maps: tuple[Tensor, ...], samples: list[Any], proposals: int
) -> Any:
    """Run the first stage, and return its output if it has queries, else ``proposals`` boxes."""
    rpn = getattr(model, 'rpn_head', None)
    if rpn is not None and not hasattr(rpn, 'prior_generator'):
        return rpn.predict(maps, samples)[0]
    if rpn is not None:
        rpn(maps)
    boxes = maps[0].new_zeros(proposals, 4)
    return InstanceData(bboxes=boxes, scores=maps[0].new_zeros(proposals))


def empty_regions(roi_head: nn.Module) -> AbstractContextManager:
    """Make RoI extractors, which have no counted operations, return zeros of the right shape.

    They depend on values, which the meta device lacks.
    """
    named = [(n, m) for n, m in roi_head.named_modules() if hasattr(m, 'featmap_strides')]
    return forwards(named, _zeros_of)


def _zeros_of(name: str, extractor: nn.Module) -> Callable:
    def zeros(feats: tuple[Tensor, ...], rois: Tensor, *_: Any, **__: Any) -> Tensor:
        size = extractor.roi_layers[0].output_size
        return feats[0].new_zeros(len(rois), extractor.out_channels, *size)

    return zeros
