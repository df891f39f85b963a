"""SSDLite (arXiv:1801.04381) as implemented by the authors of MobileViTv2 (arXiv:2206.02680).

The neck makes six levels from two maps of the backbone, at strides 16 and 32. The head predicts the
boxes and the classes of a level with one convolution, relative to anchors for images of any size.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from mmdet.models.dense_heads import SSDHead
from mmengine.model import BaseModule
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmeffvit.models.layers.conv import ConvNorm
from mmeffvit.registries import MODELS, TASK_UTILS

XAVIER = dict(type='Xavier', layer='Conv2d', distribution='uniform', bias=0)


@MODELS.register_module()
class SSDLiteNeck(BaseModule):
    """Return the backbone's maps, and coarser levels after them.

    Each extra level halves the previous one by a separable convolution: a depth-wise 3x3 with norm,
    then 1x1, norm and ReLU. The last level is the global mean of the previous one, followed by a
    1x1 convolution without norm and a ReLU. Where a level is a single pixel, its batch norms cannot
    be trained on one image: use at least two images, or images of more than 256 pixels.

    Args:
        in_channels: Channels of the incoming feature maps, fine to coarse.
        extra_channels: Channels of the halved levels.
        pooled_channels: Channels of the last level.
        init_cfg: See mmengine; by default convolutions have Xavier-uniform initialization.

    Shape:
        Maps (B, in_channels[i], H_i, W_i) -> a tuple of these maps, then
        (B, extra_channels[j], H_j, W_j) with sides halved and rounded up each time, then
        (B, pooled_channels, 1, 1).

    Raises:
        ValueError: If there are no maps, or the number of input maps differs.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        extra_channels: Sequence[int] = (256, 128, 128),
        pooled_channels: int = 64,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg or XAVIER)
        if not in_channels:
            raise ValueError(f'in_channels is {in_channels}; there must be one map or more')
        self.in_channels = tuple(in_channels)
        channels = [in_channels[-1], *extra_channels]
        self.extras = nn.ModuleList(
            nn.Sequential(
                ConvNorm(before, before, 3, stride=2, groups=before),
                ConvNorm(before, after, act=nn.ReLU),
            )
            for before, after in pairwise(channels)
        )
        self.pooled = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels[-1], pooled_channels, 1, bias=False),
            nn.ReLU(),
        )

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(maps) != len(self.in_channels):
            raise ValueError(f'got {len(maps)} feature maps; in_channels is {self.in_channels}')
        levels = list(maps)
        for layer in (*self.extras, self.pooled):
            levels.append(layer(levels[-1]))
        return tuple(levels)


@TASK_UTILS.register_module()
class SSDLiteAnchorGenerator:
    """SSD anchors (arXiv:1512.02325) in normalized coordinates, as MobileViTv2's authors use them.

    Each level k has a scale ``s_k``, evenly spaced from the first level to one past the last. Every
    cell has a square anchor of side ``s_k``, a square of side ``sqrt(s_k * s_(k+1))``, and for each
    r anchors of area ``s_k^2`` with aspect ratios r and 1/r. Sides are limited to the sides of the
    image; mmdet's ``SSDAnchorGenerator`` does not limit them, and works in pixels of a fixed input
    size.

    Args:
        ratios: Aspect ratios r, above 1, of each level.
        size_range: Scale of the first level and of the one past the last, relative to the image.

    Raises:
        ValueError: If there is no level, or a ratio or a scale is not positive.
    """

    def __init__(self, ratios: Sequence[Sequence[float]], size_range: tuple[float, float]) -> None:
        if not ratios or min(*size_range, *(r for level in ratios for r in level)) <= 0:
            raise ValueError(
                f'ratios is {ratios} and size_range {size_range}; there must be at least one '
                'level, and all numbers must be positive'
            )
        sizes = np.linspace(*size_range, len(ratios) + 1).tolist()
        self.sides = [
            anchor_sides(*both, level) for both, level in zip(pairwise(sizes), ratios, strict=True)
        ]

    @property
    def num_levels(self) -> int:
        return len(self.sides)

    @property
    def num_base_priors(self) -> list[int]:
        """Number of anchors per cell of each level."""
        return [len(sides) for sides in self.sides]

    def grid_priors(
        self,
        featmap_sizes: Sequence[tuple[int, int]],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = 'cpu',
    ) -> list[Tensor]:
        """The anchors of every level of H x W cells, ordered by row, column and anchor of a cell.

        For each level (H * W * num_base_priors, 4): left, top, right and bottom, in normalized
        coordinates. The corners may lie outside the image.
        """
        levels = []
        for (height, width), sides in zip(featmap_sizes, self.sides, strict=True):
            y = (torch.arange(height, device=device) + 0.5) / height
            x = (torch.arange(width, device=device) + 0.5) / width
            y, x = torch.meshgrid(y, x, indexing='ij')
            centers = torch.stack([x, y], dim=-1).view(-1, 1, 2)  # (H * W, 1, 2)
            half = centers.new_tensor(sides) / 2
            corners = torch.cat([centers - half, centers + half], dim=-1)  # (H * W, A, 4)
            levels.append(corners.view(-1, 4).to(dtype))
        return levels


def anchor_sides(
    size: float, following: float, ratios: Sequence[float]
) -> list[tuple[float, float]]:
    """Width and height of the anchors of a cell, from the scales of its level and of the next."""
    between = math.sqrt(size * following)
    sides = [(size, size), (between, between)]
    for root in map(math.sqrt, ratios):
        sides += [(size * root, size / root), (size / root, size * root)]
    return [(min(width, 1.0), min(height, 1.0)) for width, height in sides]


@MODELS.register_module()
class SSDLiteHead(SSDHead):
    """One convolution per level for boxes and classes, with the losses of mmdet's SSD.

    Where the channels of a map differ from ``feat_channels``, it is projected by 1x1, norm and ReLU
    first. The predictor is a depth-wise 3x3 convolution with norm, then 1x1; on the last level, a
    single pixel, 1x1 only. For each anchor it outputs 4 box values and the scores, background last.

    Anchors are in normalized coordinates and cover the whole input of the network, of any size. So
    if an image is padded to the size of its batch, the anchors over the padding are background.

    Prediction follows the code of MobileViTv2's authors and differs from mmdet's in two points: the
    best ``nms_pre`` boxes are selected per class over all levels, not per level over all classes;
    and boxes are clipped to the image at the end, not before NMS. The loss equals theirs on images
    with instances; on images without, mmdet counts one positive anchor.

    Args:
        num_classes: Number of classes without background.
        in_channels: Channels of the levels, fine to coarse.
        anchor_generator: Config of :class:`~mmeffvit.models.detection.SSDLiteAnchorGenerator`.
        bbox_coder: Config of the box coder.
        feat_channels: Input channels of the predictor of each level.
        train_cfg: `assigner`, `smoothl1_beta`, `neg_pos_ratio`; see mmdet.
        test_cfg: `score_thr`, `nms_pre`, `nms`, `max_per_img`.
        init_cfg: See mmengine; by default convolutions have Xavier-uniform initialization.

    Shape:
        Levels (B, in_channels[i], H_i, W_i) -> a list of scores
        (B, anchors * (num_classes + 1), H_i, W_i) and one of boxes (B, anchors * 4, H_i, W_i).

    Raises:
        ValueError: If the lists do not have one entry per level.
    """

    is_sorted = False  # whether the channels of a predictor are boxes, then scores

    def __init__(
        self,
        num_classes: int,
        in_channels: Sequence[int],
        anchor_generator: Mapping[str, Any],
        bbox_coder: Mapping[str, Any],
        *,
        feat_channels: Sequence[int] = (512, 256, 256, 128, 128, 64),
        train_cfg: Mapping[str, Any] | None = None,
        test_cfg: Mapping[str, Any] | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            in_channels=tuple(in_channels),
            feat_channels=tuple(feat_channels),
            anchor_generator=anchor_generator,
            bbox_coder=bbox_coder,
            train_cfg=train_cfg,
            test_cfg=test_cfg,
            init_cfg=init_cfg or XAVIER,
        )

    def _init_layers(self) -> None:
        if not len(self.in_channels) == len(self.feat_channels) == self.prior_generator.num_levels:
            raise ValueError(
                f'in_channels is {self.in_channels} and feat_channels {self.feat_channels}; the '
                f'anchors have {self.prior_generator.num_levels} levels'
            )
        self.predictors = nn.ModuleList()
        levels = zip(self.in_channels, self.feat_channels, self.num_base_priors, strict=True)
        for i, (in_channels, channels, num_anchors) in enumerate(levels):
            layers: list[nn.Module] = []
            if in_channels != channels:
                layers.append(ConvNorm(in_channels, channels, act=nn.ReLU))
            if i < len(self.in_channels) - 1:
                layers.append(ConvNorm(channels, channels, 3, groups=channels))
            layers.append(nn.Conv2d(channels, num_anchors * (4 + self.cls_out_channels), 1))
            self.predictors.append(nn.Sequential(*layers))

    def forward(self, levels: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        scores, boxes = [], []
        for x, predictor, num_anchors in zip(
            levels, self.predictors, self.num_base_priors, strict=True
        ):
            # float32 in mixed precision too: mmdet creates anchors in the type of the scores
            both = predictor(x).float()
            if self.is_sorted:
                box, score = both[:, : num_anchors * 4], both[:, num_anchors * 4 :]
            else:  # (B, anchors, 4 + classes, H, W)
                both = both.unflatten(1, (num_anchors, -1))
                box, score = both[:, :, :4].flatten(1, 2), both[:, :, 4:].flatten(1, 2)
            boxes.append(box)
            scores.append(score)
        return scores, boxes

    @torch.no_grad()
    def folded(self) -> 'SSDLiteHead':
        """Sort the channels into boxes and scores, so that maps are split without a fifth axis."""
        for predictor, num_anchors in zip(self.predictors, self.num_base_priors, strict=True):
            conv = predictor[-1]
            order = torch.arange(conv.out_channels).view(num_anchors, -1)
            order = torch.cat([order[:, :4].flatten(), order[:, 4:].flatten()])
            conv.weight.copy_(conv.weight[order])
            conv.bias.copy_(conv.bias[order])
        self.is_sorted = True
        return self

    def get_anchors(
        self,
        featmap_sizes: Sequence[tuple[int, int]],
        batch_img_metas: Sequence[Mapping[str, Any]],
        device: torch.device | str = 'cuda',
    ) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        """The anchors of every image and level in pixels, and flags that mark all as valid."""
        relative = self.prior_generator.grid_priors(featmap_sizes, device=device)
        anchors = [[in_pixels(level, meta) for level in relative] for meta in batch_img_metas]
        valid = [level.new_ones(len(level), dtype=torch.bool) for level in relative]
        return anchors, [valid] * len(anchors)

    def _predict_by_feat_single(
        self,
        cls_score_list: Sequence[Tensor],
        bbox_pred_list: Sequence[Tensor],
        score_factor_list: Sequence[None],
        mlvl_priors: Sequence[Tensor],
        img_meta: Mapping[str, Any],
        cfg: Any,
        rescale: bool = False,
        with_nms: bool = True,
    ) -> InstanceData:
        """The instances detected in an image; the arguments are mmdet's."""
        cfg = self.test_cfg if cfg is None else cfg
        scores = per_anchor(cls_score_list, self.cls_out_channels).softmax(-1)[:, :-1]
        deltas = per_anchor(bbox_pred_list, 4)
        boxes = self.bbox_coder.decode(in_pixels(torch.cat(list(mlvl_priors)), img_meta), deltas)
        best, anchors = scores.topk(min(cfg['nms_pre'], len(scores)), dim=0)  # (K, classes)
        kept = best > cfg['score_thr']
        found = InstanceData(
            bboxes=boxes[anchors[kept]], scores=best[kept], labels=kept.nonzero()[:, 1]
        )
        found = self._bbox_post_process(found, cfg, rescale, with_nms, img_meta)
        height, width = img_meta['ori_shape' if rescale else 'img_shape'][:2]
        found.bboxes = found.bboxes.clamp(min=0).minimum(
            found.bboxes.new_tensor((width, height, width, height))
        )
        return found


def in_pixels(anchors: Tensor, img_meta: Mapping[str, Any]) -> Tensor:
    """Scale anchors from normalized coordinates to pixels of the network's input."""
    height, width = img_meta['batch_input_shape']
    return anchors * anchors.new_tensor((width, height, width, height))


def per_anchor(levels: Sequence[Tensor], channels: int) -> Tensor:
    """Concatenate the levels of an image: (anchors * channels, H, W) each -> (N, channels)."""
    return torch.cat([level.permute(1, 2, 0).reshape(-1, channels) for level in levels])
