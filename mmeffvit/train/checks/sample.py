"""A random batch with targets, in the format of the packages' data loaders."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from mmeffvit.config.datasets import meta_of, preprocessor_of, settings_of

BATCH = 2  # batch norm after global pooling needs more than one image
CORNERS = ((0.08, 0.08, 0.47, 0.55), (0.4, 0.3, 0.95, 0.86))  # boxes, normalized coordinates


def random_batch(
    scope: str, side: int, num_classes: int, *, seg_scale: float = 1.0, masks: bool = True
) -> dict[str, Any]:
    """Square images of noise, each with two instances, with a label map, or with a label.

    Args:
        scope: 'mmdet', 'mmseg' or 'mmpretrain'.
        side: Height and width, in pixels.
        num_classes: Number of classes.
        seg_scale: Size of a detector's semantic map relative to the image.
        masks: Whether instances have masks; some assigners fail on them.
    """
    rng = np.random.default_rng(0)
    images = [
        torch.tensor(rng.integers(0, 256, (3, side, side)), dtype=torch.uint8) for _ in range(BATCH)
    ]
    meta = meta_of((side, side))
    if scope == 'mmpretrain':
        from mmpretrain.structures import DataSample

        samples = [
            DataSample(metainfo=meta).set_gt_label(label % num_classes) for label in range(BATCH)
        ]
        return dict(inputs=torch.stack(images), data_samples=samples)
    if scope == 'mmseg':
        samples = [segmentation_sample(side, num_classes, meta) for _ in range(BATCH)]
    else:
        seg_side = round(side * seg_scale)
        samples = [detection_sample(side, num_classes, meta, seg_side) for _ in range(BATCH)]
        if not masks:
            for sample in samples:
                del sample.gt_instances.masks
    return dict(inputs=images, data_samples=samples)


def detection_sample(side: int, num_classes: int, meta: dict, seg_side: int) -> Any:
    """Two boxes with labels and masks, also used as proposals, and a semantic map."""
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    from mmengine.structures import InstanceData, PixelData

    boxes = np.round(np.array(CORNERS, np.float32) * side)
    masks = np.zeros((len(boxes), side, side), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.astype(int), strict=True):
        mask[y1:y2, x1:x2] = 1
    sample = DetDataSample(metainfo=meta)
    sample.gt_instances = InstanceData(
        bboxes=torch.tensor(boxes),
        labels=torch.tensor([0, num_classes - 1]),
        masks=BitmapMasks(masks, side, side),
    )
    sample.ignored_instances = InstanceData(
        bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long)
    )
    sample.proposals = InstanceData(bboxes=torch.tensor(boxes), scores=torch.ones(len(boxes)))
    sample.gt_sem_seg = PixelData(sem_seg=torch.zeros(1, seg_side, seg_side, dtype=torch.long))
    return sample


def segmentation_sample(side: int, num_classes: int, meta: dict) -> Any:
    """A label map of horizontal stripes that cycle through the classes, with its edges."""
    from mmengine.structures import PixelData
    from mmseg.structures import SegDataSample

    rows = torch.arange(side)[:, None].expand(side, side)[None]  # (1, side, side)
    sample = SegDataSample(metainfo=meta)
    sample.gt_sem_seg = PixelData(data=rows // 8 % num_classes)
    sample.gt_edge_map = PixelData(data=(rows % 8 == 0).long())
    return sample


def maps_in(values: Any) -> list[Tensor]:
    """The first feature map, or list of feature maps, in ``values``."""
    for value in values:
        candidates = list(value) if isinstance(value, list | tuple) else [value]
        if candidates and all(isinstance(x, Tensor) and x.ndim == 4 for x in candidates):
            return candidates
    return []


def own_batches(config: Config) -> tuple[int | None, Callable[[int, int], dict[str, Any]]]:
    """The image size of a config if it is fixed, and a function that makes random batches."""
    preprocessor = preprocessor_of(config)
    sizes = [preprocessor.get('size')]
    sizes += [
        resize.get('scale') for resize in settings_of(config.get('test_dataloader'), 'Resize')
    ]
    side = next((min(size) for size in sizes if isinstance(size, list | tuple)), None)
    loader = config.get('train_dataloader')
    rescale = next(settings_of(loader, 'SegRescale'), {})
    readers = list(settings_of(loader, 'LoadAnnotations'))
    masks = not readers or any(reader.get('with_mask') for reader in readers)
    scale = rescale.get('scale_factor', 1.0)
    return side, partial(random_batch, config.default_scope, seg_scale=scale, masks=masks)
