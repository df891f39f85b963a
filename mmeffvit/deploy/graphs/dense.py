"""Export graphs of dense detectors: RetinaNet, RTMDet, SSDLite."""

import torch
from torch import Tensor, nn

from . import ops
from .base import DetectionGraph, Preprocessing


class DenseGraph(DetectionGraph):
    """A detector of mmdet with the post-processing of ``BaseDenseHead``.

    From each level the best ``nms_pre`` pairs of prior and class above ``score_thr`` are decoded
    and clipped, followed by NMS over all levels.

    Args:
        model: The detector; its head must not have score factors such as centerness.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, Preprocessing.of(model.data_preprocessor))
        self.head = self.network.bbox_head
        self.test_cfg = self.head.test_cfg

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        scores, deltas = self.head(self.network.extract_feat(x))
        return self.suppress(*self.candidates(scores, deltas, size), size)

    def candidates(
        self, scores: list[Tensor], deltas: list[Tensor], size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pre-NMS boxes (B, N, 4), scores and labels (B, N) of all levels."""
        grids = [tuple(level.shape[2:]) for level in scores]
        generator = self.head.prior_generator
        priors = generator.grid_priors(grids, dtype=scores[0].dtype, device=scores[0].device)
        levels = [self.level(*each) for each in zip(scores, deltas, priors, strict=True)]
        boxes, best, labels = (torch.cat(part, dim=1) for part in zip(*levels, strict=True))
        if self.head.bbox_coder.clip_border:
            boxes = ops.clip(boxes, size)
        return boxes, best, labels

    def level(
        self, scores: Tensor, deltas: Tensor, priors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The candidates of one level."""
        classes = self.head.cls_out_channels
        scores = rows(scores, classes)
        if self.head.use_sigmoid_cls:
            scores = scores.sigmoid()
        else:
            scores, classes = scores.softmax(-1)[..., :-1], classes - 1
        best, pairs = ops.topk(scores.flatten(1), self.test_cfg.nms_pre)
        best = above(best, self.test_cfg.get('score_thr', 0))
        # coremltools divides integers as floats, which it does not take as an index
        index = (pairs // classes).int().long()
        return self.decode(priors, ops.gather(rows(deltas, 4), index), index), best, pairs % classes

    def decode(self, priors: Tensor, deltas: Tensor, index: Tensor) -> Tensor:
        """Boxes (B, K, 4) of the priors at ``index`` (B, K)."""
        chosen = priors[index.flatten()]
        return self.head.bbox_coder.decode(chosen, deltas.flatten(0, 1)).view_as(deltas)

    def suppress(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The best objects after NMS of the candidates; ``size`` is H and W of the images."""
        cfg = self.test_cfg
        scores = ops.drop_small(boxes, scores, cfg.get('min_bbox_size', -1))
        scores = ops.batched_nms(boxes, scores, labels, cfg.nms, cfg.max_per_img)
        return ops.best_objects(boxes, scores, labels, cfg.max_per_img)


class SSDLiteGraph(DenseGraph):
    """SSDLite: the best ``nms_pre`` boxes of every class over all levels, clipped at the end.

    Args:
        model: A detector with :class:`mmeffvit.detection.SSDLiteHead`.
    """

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        scores, deltas = self.head(self.network.extract_feat(x))
        grids = [tuple(level.shape[2:]) for level in scores]
        # anchors are in normalized coordinates of the network's input, including padding
        priors = torch.cat(self.head.prior_generator.grid_priors(grids, device=x.device))
        priors = torch.cat([priors[:, 0::2] * x.shape[3], priors[:, 1::2] * x.shape[2]], dim=1)[
            :, [0, 2, 1, 3]
        ]
        return self.suppress(*self.best_of_classes(scores, deltas, priors), size)

    def suppress(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        boxes, found, labels = super().suppress(boxes, scores, labels, size)
        return ops.clip(boxes, size), found, labels

    def best_of_classes(
        self, scores: list[Tensor], deltas: list[Tensor], priors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes (B, N, 4), scores and labels (B, N) of the best anchors of every class."""
        channels = self.head.cls_out_channels
        joined = torch.cat([rows(level, channels) for level in scores], dim=1)
        best, anchors = ops.topk(joined.softmax(-1)[..., :-1], self.test_cfg.nms_pre)
        best = above(best, self.test_cfg.score_thr)  # (B, K, classes)
        labels = torch.arange(channels - 1, device=best.device).expand_as(best)
        index = anchors.flatten(1)
        deltas = ops.gather(torch.cat([rows(level, 4) for level in deltas], dim=1), index)
        return self.decode(priors, deltas, index), best.flatten(1), labels.flatten(1)


def rows(level: Tensor, channels: int) -> Tensor:
    """A map (B, A * channels, H, W) as one row per prior: (B, H * W * A, channels)."""
    level = level.permute(0, 2, 3, 1)  # (B, H, W, A * channels)
    return level.unflatten(3, (-1, channels)).flatten(1, 3)


def above(scores: Tensor, threshold: float) -> Tensor:
    """The scores above a threshold; the others become :data:`.ops.EMPTY`."""
    return torch.where(scores > threshold, scores, torch.full_like(scores, ops.EMPTY))
