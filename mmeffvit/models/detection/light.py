"""A dense head of shared depth-wise convolutions, for detectors on phones.

Scores and boxes follow generalized focal loss (arXiv:2006.04388), their targets task-aligned
assignment (arXiv:2108.07755).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmdet.models.dense_heads import RTMDetHead
from mmdet.models.task_modules.assigners import AssignResult, TaskAlignedAssigner
from mmdet.utils import reduce_mean
from mmengine.model import bias_init_with_prob
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmeffvit.models.layers.conv import ConvNorm
from mmeffvit.registries import MODELS, TASK_UTILS

KERNEL_SIZE = 5


@TASK_UTILS.register_module()
class PointTaskAlignedAssigner(TaskAlignedAssigner):
    """Task-aligned assignment for points and logits, with the targets of arXiv:2108.07755, eq. 3.

    Of the ``topk`` points with the largest ``t = s * u^6``, s the predicted score of its class and
    u the IoU of the predicted box, an instance gets those in it. Their target is t, scaled so that
    the largest of an instance is its largest IoU; it replaces the IoU in the result.

    Args:
        topk: Points of an instance.
        iou_calculator: See mmdet.
    """

    def assign(
        self,
        pred_instances: InstanceData,
        gt_instances: InstanceData,
        gt_instances_ignore: InstanceData | None = None,
        **powers: int,
    ) -> AssignResult:
        points = pred_instances.priors[:, :2]
        predicted = InstanceData(
            scores=pred_instances.scores.sigmoid(),
            bboxes=pred_instances.bboxes,
            priors=torch.cat([points, points], dim=1),  # boxes without area
        )
        result = super().assign(predicted, gt_instances, gt_instances_ignore, **powers)
        index = result.gt_inds  # 0 is the background
        ious = result.max_overlaps.clamp(min=0)
        best = ious.new_zeros(2, result.num_gts + 1)
        both = torch.stack([result.assign_metrics, ious])
        best.scatter_reduce_(1, index.expand(2, -1), both, 'amax')
        metric, iou = best[:, index]
        result.max_overlaps = result.assign_metrics / metric.clamp(min=1e-12) * iou
        return result


@MODELS.register_module()
class LightHead(RTMDetHead):
    """One tower of depth-wise 5x5 and 1x1 convolutions for scores and boxes, shared by all levels.

    Every level has its own batch norms, like in RTMDet; a 1x1 convolution per level predicts both.
    Each distance from a point to a side of its box is the mean of a distribution over 0 to
    ``reg_max`` strides.

    Args:
        num_classes: Number of classes.
        in_channels: Channels of every level.
        reg_max: Largest distance, in strides.
        loss_dfl: Config of the loss of the distributions.
        options: `anchor_generator`, `bbox_coder`, `stacked_convs`, `feat_channels`, `loss_cls`,
            `loss_bbox`, `train_cfg`, `test_cfg`; see mmdet's ``RTMDetHead``.

    Shape:
        Levels (B, in_channels, H_i, W_i) -> a list of logits (B, num_classes, H_i, W_i) and one of
        distributions (B, 4 * (reg_max + 1), H_i, W_i).
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        *,
        reg_max: int = 7,
        loss_dfl: Mapping[str, Any] = {'type': 'DistributionFocalLoss', 'loss_weight': 0.25},
        **options: Any,
    ) -> None:
        self.reg_max = reg_max
        super().__init__(num_classes, in_channels, with_objectness=False, **options)
        self.register_buffer('steps', torch.arange(reg_max + 1.0), persistent=False)
        self.loss_dfl = MODELS.build(loss_dfl)

    def _init_layers(self) -> None:
        self.towers, self.outputs = nn.ModuleList(), nn.ModuleList()
        for _ in self.prior_generator.strides:
            tower = nn.Sequential()
            for i in range(self.stacked_convs):
                channels = self.feat_channels if i else self.in_channels
                tower += nn.Sequential(
                    ConvNorm(channels, channels, KERNEL_SIZE, groups=channels, act=nn.ReLU),
                    ConvNorm(channels, self.feat_channels, act=nn.ReLU),
                )
            for layer, first in zip(tower, self.towers[0] if self.towers else (), strict=False):
                layer.conv = first.conv
            self.towers.append(tower)
            channels = self.num_classes + 4 * (self.reg_max + 1)
            self.outputs.append(nn.Conv2d(self.feat_channels, channels, 1))

    def init_weights(self) -> None:
        for output in self.outputs:
            nn.init.normal_(output.weight, std=0.01)
            nn.init.constant_(output.bias[: self.num_classes], bias_init_with_prob(0.01))
            # boxes of about three strides at first: uniform distributions would give seven
            with torch.no_grad():
                output.bias[self.num_classes :] = -self.steps.repeat(4) / 2

    def forward(self, levels: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        both = [
            output(tower(x)).split([self.num_classes, 4 * (self.reg_max + 1)], dim=1)
            for x, tower, output in zip(levels, self.towers, self.outputs, strict=True)
        ]
        scores, boxes = zip(*both, strict=True)
        return list(scores), list(boxes)

    def distances(self, sides: Tensor) -> Tensor:
        """Mean distances in strides of distributions: (..., 4 * (reg_max + 1)) -> (..., 4)."""
        shares = sides.unflatten(-1, (4, self.reg_max + 1)).softmax(dim=-1)
        return (shares * self.steps).sum(dim=-1)

    def loss_by_feat(
        self,
        cls_scores: Sequence[Tensor],
        bbox_preds: Sequence[Tensor],
        batch_gt_instances: Sequence[InstanceData],
        batch_img_metas: Sequence[Mapping[str, Any]],
        batch_gt_instances_ignore: Sequence[InstanceData] | None = None,
    ) -> dict[str, Tensor]:
        """The losses of scores, boxes and distributions; the arguments are mmdet's."""
        sizes = [tuple(level.shape[2:]) for level in cls_scores]
        points, flags = self.get_anchors(sizes, batch_img_metas, device=cls_scores[0].device)
        logits, sides = (rows(levels).float() for levels in (cls_scores, bbox_preds))
        priors = torch.cat(points[0])  # (N, 4): x, y and twice the stride
        center, stride = priors[:, :2], priors[:, 2:3]
        every = center.expand(len(sides), -1, -1)
        boxes = self.bbox_coder.decode(every, self.distances(sides) * stride)
        _, *targets, _ = self.get_targets(
            logits, boxes, points, flags, batch_gt_instances, batch_img_metas,
            batch_gt_instances_ignore,
        )  # fmt: skip
        labels, weights, wanted, quality = (torch.cat(levels, dim=1) for levels in targets)
        total = reduce_mean(quality.sum()).clamp(min=1).item()
        is_object = (labels >= 0) & (labels < self.num_classes)
        quality_of = quality[is_object]
        offsets = self.bbox_coder.encode(every[is_object], wanted[is_object])
        offsets = offsets / stride.expand(len(sides), -1, -1)[is_object]
        return dict(
            loss_cls=self.loss_cls(
                logits.flatten(0, 1),
                (labels.flatten(), quality.flatten()),
                weights.flatten(),
                avg_factor=total,
            ),
            loss_bbox=self.loss_bbox(
                boxes[is_object], wanted[is_object], quality_of, avg_factor=total
            ),
            loss_dfl=self.loss_dfl(
                sides[is_object].view(-1, self.reg_max + 1),
                offsets.flatten().clamp(0, self.reg_max - 0.01),
                quality_of.repeat_interleave(4),
                avg_factor=4 * total,
            ),
        )

    def predict_by_feat(
        self, cls_scores: Sequence[Tensor], bbox_preds: Sequence[Tensor], **options: Any
    ) -> list[InstanceData]:
        """The instances detected in each image; the options are mmdet's."""
        distances = []
        for level, (stride, _) in zip(bbox_preds, self.prior_generator.strides, strict=True):
            means = self.distances(level.permute(0, 2, 3, 1))  # (B, H, W, 4)
            distances.append(means.permute(0, 3, 1, 2) * stride)
        return super().predict_by_feat(cls_scores, distances, **options)


def rows(levels: Sequence[Tensor]) -> Tensor:
    """One row per point of all levels: (B, C, H, W) each -> (B, N, C)."""
    return torch.cat([level.flatten(2).mT for level in levels], dim=1)
