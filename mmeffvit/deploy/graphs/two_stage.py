"""The export graph of Mask R-CNN and Faster R-CNN."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor
from torch import Tensor, nn

from mmeffvit.errors import UserError

from . import ops, roi_align
from .base import DetectionGraph
from .dense import rows


class MaskRCNNGraph(DetectionGraph):
    """A detector of mmdet with an RPN and a ``StandardRoIHead``, with or without masks.

    The config fixes the numbers of proposals and objects; empty entries pad them.

    Shape:
        Outputs of :class:`DetectionGraph`, and with a mask head masks (B, K, M, M): probabilities
        over the pixels of each box for its class; 0 in empty entries.

    Raises:
        UserError: If a part of the model is not supported.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.with_mask = model.roi_head.with_mask
        if self.with_mask:
            self.task = 'instance segmentation'
            self.output_names = (*self.output_names, 'masks')
        check(model)

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        features = self.network.extract_feat(x)
        proposals, scores = self.propose(features, size)
        boxes, scores, labels = self.classify(features, proposals, scores, size)
        if not self.with_mask:
            return boxes, scores, labels
        return boxes, scores, labels, self.masks(features, boxes, labels)

    def propose(self, features: Sequence[Tensor], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Region proposals, like mmdet's ``RPNHead.predict``.

        Shape:
            Maps (B, C, H_l, W_l) -> boxes (B, P, 4), scores (B, P), descending, padded with EMPTY.
        """
        head = self.network.rpn_head
        cfg = head.test_cfg
        cls_scores, bbox_preds = head(features)
        sizes = [level.shape[2:] for level in cls_scores]
        priors = head.prior_generator.grid_priors(sizes, cls_scores[0].dtype, cls_scores[0].device)
        chosen, maps = [], zip(cls_scores, bbox_preds, priors, strict=True)
        for level, (cls_score, bbox_pred, anchors) in enumerate(maps):
            best, index = ops.topk(rows(cls_score, 1).squeeze(2).sigmoid(), cfg.nms_pre)
            levels = torch.full_like(best, level, dtype=torch.long)
            chosen.append((best, ops.gather(rows(bbox_pred, 4), index), anchors[index], levels))
        joined = (torch.cat(part, dim=1) for part in zip(*chosen, strict=True))
        scores, deltas, priors, levels = joined  # (B, K), (B, K, 4), (B, K, 4), (B, K)
        boxes = head.bbox_coder.decode(priors.flatten(0, 1), deltas.flatten(0, 1), max_shape=size)
        boxes = boxes.reshape(priors.shape)
        scores = ops.drop_small(boxes, scores, cfg.get('min_bbox_size', -1))
        scores = ops.batched_nms(boxes, scores, levels, cfg.nms, cfg.max_per_img)
        scores, index = ops.topk(scores, cfg.max_per_img)
        return ops.gather(boxes, index), scores

    def classify(
        self,
        features: Sequence[Tensor],
        proposals: Tensor,
        proposal_scores: Tensor,
        size: tuple[int, int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Objects from the proposals, like mmdet's ``StandardRoIHead.predict_bbox``.

        Shape:
            Maps, (B, P, 4), (B, P) -> boxes (B, K, 4), scores (B, K), labels (B, K).
        """
        roi_head = self.network.roi_head
        head, cfg = roi_head.bbox_head, roi_head.test_cfg
        regions = with_image_index(proposals)
        cls_score, bbox_pred = head(extract(roi_head.bbox_roi_extractor, features, regions))
        boxes = head.bbox_coder.decode(regions[:, 1:], bbox_pred, max_shape=size)
        boxes = boxes.unflatten(1, (-1, 4)).expand(-1, head.num_classes, -1)  # (B P, C, 4)
        scores = cls_score.softmax(dim=-1)[:, :-1]  # (B P, C), without the background
        chosen = (scores > cfg.score_thr) & (proposal_scores.flatten() > 0).unsqueeze(1)
        scores = torch.where(chosen, scores, torch.full_like(scores, ops.EMPTY))
        labels = torch.arange(head.num_classes, device=scores.device).expand_as(scores)

        # every pair of a proposal and a class is a candidate
        num_pairs = proposals.shape[1] * head.num_classes
        boxes = boxes.reshape(-1, num_pairs, 4)
        scores, labels = scores.reshape(-1, num_pairs), labels.reshape(-1, num_pairs)
        scores = ops.batched_nms(boxes, scores, labels, cfg.nms, cfg.max_per_img)
        return ops.best_objects(boxes, scores, labels, cfg.max_per_img)

    def masks(self, features: Sequence[Tensor], boxes: Tensor, labels: Tensor) -> Tensor:
        """Masks of the objects; the head sees no empty entries, apart from the first.

        Shape:
            Maps, (B, K, 4), (B, K) -> (B, K, M, M).
        """
        roi_head = self.network.roi_head
        entries = ops.true_indices(labels.flatten() >= 0)
        found = labels.flatten()[entries]
        # OpenVINO pools empty regions to NaN, from which no quantizer can learn a range
        corners = F.pad(boxes.new_ones(2), (2, 0))  # of the first pixel
        regions = with_image_index(torch.where((labels >= 0).unsqueeze(2), boxes, corners))
        pooled = extract(roi_head.mask_roi_extractor, features, regions[entries])
        masks = roi_head.mask_head(pooled).sigmoid()  # (F, C or 1, M, M)
        if masks.shape[1] > 1:
            index = found.clamp(min=0).view(-1, 1, 1, 1)
            masks = masks.gather(1, index.expand(-1, -1, *masks.shape[2:]))
        masks = torch.where((found >= 0).view(-1, 1, 1, 1), masks, torch.zeros_like(masks))
        every = masks.new_zeros(labels.numel(), *masks.shape[2:])
        every = every.index_put((entries,), masks.squeeze(1))
        return every.view(*labels.shape, *masks.shape[2:])


def with_image_index(boxes: Tensor) -> Tensor:
    """Boxes (B, P, 4) as regions (B P, 5), prefixed with the index of the image."""
    images = torch.arange(boxes.shape[0], device=boxes.device).to(boxes.dtype)
    images = images.view(-1, 1, 1).expand(-1, boxes.shape[1], 1)
    return torch.cat([images, boxes], dim=2).flatten(0, 1)


def extract(extractor: SingleRoIExtractor, features: Sequence[Tensor], regions: Tensor) -> Tensor:
    """Features of regions, each from the level for its size, like mmdet's ``SingleRoIExtractor``.

    The level is ``floor(log2(scale / finest_scale + 1e-6))`` in [0, L - 1], where scale is the
    square root of the area; comparisons with powers of 2 avoid the rounding of the logarithm.

    Shape:
        L maps (B, C, H_l, W_l) or more, (R, 5) -> (R, C, h, w).
    """
    layers = extractor.roi_layers
    sides = regions[:, 3:] - regions[:, 1:3]
    scales = sides.prod(dim=1).sqrt() / extractor.finest_scale + 1e-6
    levels = torch.zeros_like(scales, dtype=torch.long)
    for level in range(1, len(layers)):
        levels = levels + (scales >= 2**level)
    return roi_align.multi_level_roi_align(
        list(features[: len(layers)]),
        regions,
        levels,
        [layer.spatial_scale for layer in layers],
        list(layers[0].output_size),
        layers[0].sampling_ratio,
        layers[0].aligned,
    )


def check(model: nn.Module) -> None:
    """Raise UserError if a part of the model is not supported."""
    roi_head = model.roi_head
    extractors = [roi_head.bbox_roi_extractor]
    extractors += [roi_head.mask_roi_extractor] if roi_head.with_mask else []
    for extractor in extractors:
        expect(extractor, 'SingleRoIExtractor')
        layer = extractor.roi_layers[0]
        expect(layer, 'RoIAlign')
        if layer.pool_mode != 'avg':
            raise UserError(f'pool_mode {layer.pool_mode!r} cannot be exported; choose avg')
    if not model.rpn_head.use_sigmoid_cls:
        raise UserError(
            'an rpn_head with a softmax cannot be exported; set loss_cls.use_sigmoid=True, and '
            'train it'
        )
    threshold = roi_head.test_cfg.get('mask_thr_binary', 0.5)
    if roi_head.with_mask and not 0 <= threshold <= 1:
        raise UserError(
            f'model.test_cfg.rcnn.mask_thr_binary is {threshold}; give 0 to 1 to export it'
        )
    if roi_head.with_shared_head:
        raise UserError('a roi_head with a shared head cannot be exported; remove shared_head')


def expect(part: nn.Module, name: str) -> None:
    """Raise UserError if the class of ``part`` has another name."""
    if type(part).__name__ != name:
        raise UserError(f'{type(part).__name__} cannot be exported; choose {name}')
