"""Export graphs of dense detectors: RetinaNet, RTMDet, SSDLite, GFLite."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import ops
from .base import DetectionGraph

Level = tuple[Tensor, Tensor, Tensor]  # scores (B, N, classes), deltas (B, N, D), priors (N, ...)
Candidates = tuple[Tensor, Tensor, Tensor]  # boxes (B, K, 4), scores (B, K), labels (B, K)
Selection = tuple[Tensor, Tensor, Tensor]  # scores, indices of priors, and labels, (B, K) each
Select = Callable[[Tensor], Selection]  # from the scores of a level
MANY = 2000  # selecting fewer takes less time than finding all pairs above a threshold


class DenseGraph(DetectionGraph):
    """A detector of mmdet with the post-processing of ``BaseDenseHead``.

    From each level the best ``nms_pre`` pairs of prior and class above ``score_thr`` are decoded
    and clipped, followed by NMS over all levels. Before a selection of many, pairs below
    ``score_thr`` are dropped, except by :meth:`candidates`, for runtimes that need fixed shapes.
    The head must not have score factors such as centerness.
    """

    num_deltas = 4  # D, per prior

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.head = self.network.bbox_head
        self.test_cfg = self.head.test_cfg
        self.clips_candidates = self.head.bbox_coder.clip_border

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        select = self.select_likely if self.test_cfg.nms_pre > MANY else self.select
        return self.suppress(*self.joined(x, size, select), size)

    def candidates(self, x: Tensor, size: tuple[int, int]) -> Candidates:
        """Pre-NMS objects of all levels, decoded together."""
        return self.joined(x, size, self.select)

    def joined(self, x: Tensor, size: tuple[int, int], select: Select) -> Candidates:
        chosen = []
        for scores, deltas, priors in self.levels(x):
            best, index, labels = select(scores)
            chosen.append((best, labels, ops.gather(deltas, index), F.embedding(index, priors)))
        joined = (torch.cat(part, dim=1) for part in zip(*chosen, strict=True))
        best, labels, deltas, priors = joined
        boxes = self.decode(priors, deltas)
        return ops.clip(boxes, size) if self.clips_candidates else boxes, best, labels

    def levels(self, x: Tensor) -> Iterator[Level]:
        """Predictions of each level, from which candidates are selected independently."""
        scores, deltas = self.head(self.network.extract_feat(x))
        grids = [tuple(level.shape[2:]) for level in scores]
        generator = self.head.prior_generator
        priors = generator.grid_priors(grids, dtype=scores[0].dtype, device=scores[0].device)
        for score, delta, prior in zip(scores, deltas, priors, strict=True):
            logits = rows(score, self.head.cls_out_channels)
            probabilities = (
                logits.sigmoid() if self.head.use_sigmoid_cls else logits.softmax(-1)[..., :-1]
            )
            yield probabilities, rows(delta, self.num_deltas), prior

    def select(self, scores: Tensor) -> Selection:
        """The best ``nms_pre`` pairs of prior and class."""
        best, pairs = ops.topk(scores.flatten(1), self.test_cfg.nms_pre)
        return self.split(best, pairs, scores.shape[2])

    def select_likely(self, scores: Tensor) -> Selection:
        """The same of the pairs above ``score_thr`` in any of the images."""
        scores, classes = scores.flatten(1), scores.shape[2]
        is_single = isinstance(scores.shape[0], int) and scores.shape[0] == 1
        highest = scores[0] if is_single else scores.amax(dim=0)
        likely = ops.true_indices(highest > self.test_cfg.get('score_thr', 0))
        count = torch.sym_min(self.test_cfg.nms_pre, likely.shape[0])
        likely_scores = scores.index_select(1, likely)
        best, index = likely_scores.topk(count, dim=1, sorted=False)  # NMS sorts them
        return self.split(best, likely[index], classes)

    def split(self, best: Tensor, pairs: Tensor, classes: int) -> Selection:
        best = above(best, self.test_cfg.get('score_thr', 0))
        return best, pairs // classes, pairs % classes

    def decode(self, priors: Tensor, deltas: Tensor) -> Tensor:
        """Boxes (B, K, 4) of priors (B, K, ...) and their deltas (B, K, D)."""
        coder = self.head.bbox_coder
        return coder.decode(priors.flatten(0, 1), deltas.flatten(0, 1)).view_as(deltas)

    def suppress(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The best objects after NMS of the candidates; ``size`` is H and W of the images."""
        cfg = self.test_cfg
        scores = ops.drop_small(boxes, scores, cfg.get('min_bbox_size', -1))
        scores = ops.batched_nms(boxes, scores, labels, cfg.nms, cfg.max_per_img)
        return ops.best_objects(boxes, scores, labels, cfg.max_per_img)


class LightGraph(DenseGraph):
    """A detector with ``LightHead``: only the distributions of selected points become boxes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.num_deltas = 4 * (self.head.reg_max + 1)

    def levels(self, x: Tensor) -> Iterator[Level]:
        strides = self.head.prior_generator.strides
        for (scores, deltas, points), (stride, _) in zip(super().levels(x), strides, strict=True):
            # (N, 3): x, y and the stride
            yield scores, deltas, torch.cat([points, torch.full_like(points[:, :1], stride)], dim=1)

    def decode(self, priors: Tensor, deltas: Tensor) -> Tensor:
        distances = self.head.distances(deltas) * priors[..., 2:]
        return self.head.bbox_coder.decode(priors[..., :2], distances)


class SSDLiteGraph(DenseGraph):
    """SSDLite: the best ``nms_pre`` boxes of every class over all levels, clipped at the end.

    These are thousands of pairs of anchor and class, so anchors and pairs below ``score_thr`` are
    dropped before the selection and before NMS, except by :meth:`candidates`, for runtimes that
    need fixed shapes.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.clips_candidates = False

    def levels(self, x: Tensor) -> Iterator[Level]:
        scores, deltas, priors = zip(*super().levels(x), strict=True)
        # anchors are in normalized coordinates of the network's input, including padding
        anchors = ops.to_pixels(torch.cat(priors), (x.shape[2], x.shape[3]))
        yield torch.cat(scores, dim=1), torch.cat(deltas, dim=1), anchors

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        boxes, scores = self.boxes(x)
        threshold = self.test_cfg.score_thr
        likely = ops.true_indices(scores.amax(dim=(0, 2)) > threshold)
        scores = scores.index_select(1, likely)
        selected = self.select(scores)
        found = ops.true_indices(selected[0].amax(dim=0) > ops.EMPTY)
        best, index, labels = (part.index_select(1, found) for part in selected)
        boxes = ops.gather(boxes.index_select(1, likely), index)
        return self.suppress(boxes, best, labels, size)

    def candidates(self, x: Tensor, size: tuple[int, int]) -> Candidates:
        boxes, scores = self.boxes(x)
        best, index, labels = self.select(scores)
        return ops.gather(boxes, index), best, labels

    def boxes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes (B, N, 4) and scores (B, N, classes) of all anchors: fewer than pairs."""
        ((scores, deltas, priors),) = self.levels(x)
        return self.decode(priors.expand(deltas.shape[0], -1, -1), deltas), scores

    def select(self, scores: Tensor) -> Selection:
        """The best ``nms_pre`` pairs of every class."""
        count = torch.sym_min(self.test_cfg.nms_pre, scores.shape[1])
        # ONNX Runtime is faster along the last axis
        best, anchors = scores.mT.topk(count, dim=2)
        best = above(best, self.test_cfg.score_thr)  # (B, classes, K)
        labels = torch.arange(scores.shape[2], device=best.device)[:, None].expand_as(best)
        return best.flatten(1), anchors.flatten(1), labels.flatten(1)

    def suppress(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        boxes, found, labels = super().suppress(boxes, scores, labels, size)
        return ops.clip(boxes, size), found, labels


def rows(level: Tensor, channels: int) -> Tensor:
    """A map (B, A * channels, H, W) as one row per prior: (B, H * W * A, channels)."""
    batch, both, height, width = level.shape
    # with -1 torch would make the channels an expression of the image size, which OpenVINO's NMS
    # does not take
    by_position = level.permute(0, 2, 3, 1).contiguous()  # exports faster than a reshape does
    return by_position.view(batch, height * width * (both // channels), channels)


def above(scores: Tensor, threshold: float) -> Tensor:
    """The scores above a threshold; the others become :data:`.ops.EMPTY`."""
    return torch.where(scores > threshold, scores, ops.EMPTY)
