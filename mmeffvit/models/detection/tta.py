"""Test-time augmentation of detectors, including instance masks."""

from collections.abc import Sequence

import torch
from mmcv.ops import batched_nms
from mmdet.structures import DetDataSample
from mmdet.structures.bbox import bbox_flip
from mmengine.model import BaseTTAModel
from mmengine.structures import InstanceData
from torch import Tensor

from mmeffvit.registries import MODELS

FIELDS = ('bboxes', 'scores', 'labels', 'masks')
FLIPPED_AXES = {'horizontal': (-1,), 'vertical': (-2,), 'diagonal': (-2, -1)}


@MODELS.register_module()
class InstanceTTAModel(BaseTTAModel):
    """Merge the instances detected in flipped or resized copies of an image by class-wise NMS.

    mmdet's ``DetTTAModel`` does this for boxes and does not support masks; here instances keep
    their masks.

    Args:
        iou_threshold: IoU threshold of NMS, in (0, 1].
        max_per_img: Maximum number of instances per image.
        module: The detector, or its config.
    """

    def __init__(self, iou_threshold: float = 0.5, max_per_img: int = 100, **kwargs) -> None:
        super().__init__(**kwargs)
        self.nms = dict(type='nms', iou_threshold=iou_threshold)
        self.max_per_img = max_per_img

    def merge_preds(self, data_samples_list: list[list[DetDataSample]]) -> list[DetDataSample]:
        return [self._merge(views) for views in data_samples_list]

    def _merge(self, views: Sequence[DetDataSample]) -> DetDataSample:
        pooled = InstanceData.cat([unflip(view) for view in views])
        merged = views[0]
        if len(pooled):
            # NMS sorts by score: the first ones are the best
            _, kept = batched_nms(pooled.bboxes, pooled.scores, pooled.labels, self.nms)
            pooled = pooled[kept[: self.max_per_img]]
        merged.pred_instances = pooled
        return merged


def unflip(view: DetDataSample) -> InstanceData:
    """Return the predictions of a view in the coordinates of the original image."""
    instances = view.pred_instances
    # others, such as the kernels of RTMDet-Ins, are of the view
    fields: dict[str, Tensor] = {k: instances.get(k) for k in FIELDS if k in instances}
    if view.metainfo.get('flip'):
        direction = view.flip_direction
        fields['bboxes'] = bbox_flip(fields['bboxes'], view.ori_shape, direction)
        if 'masks' in fields:
            fields['masks'] = torch.flip(fields['masks'], FLIPPED_AXES[direction])
    return InstanceData(**fields)
