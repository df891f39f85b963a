"""The export graph of Deformable DETR, with mmdet's attention or our single-head attention."""

from collections.abc import Sequence

import torch
from mmdet.structures.bbox import bbox_cxcywh_to_xyxy
from torch import Tensor, nn

from mmeffvit.errors import UserError

from . import ops
from .base import DetectionGraph
from .deformable_attention import Levels, make_traceable


class DeformableDETRGraph(DetectionGraph):
    """A ``DeformableDETR`` of mmdet, or our ``SingleHeadDeformableDETR``.

    All images of a batch have the same size, so there is no padding: no masks are needed, and the
    valid ratios are 1.

    Raises:
        UserError: If the model pads images, is two-stage, or uses a softmax for the classes.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        if self.preprocessing.size_divisor != 1:
            raise UserError(
                f'data_preprocessor.pad_size_divisor is {self.preprocessing.size_divisor}; '
                'Deformable DETR can be exported with 1 only; it accepts images of any size'
            )
        if model.as_two_stage:
            raise UserError('as_two_stage=True cannot be exported; choose as_two_stage=False')
        if not model.bbox_head.loss_cls.use_sigmoid:
            raise UserError('loss_cls.use_sigmoid=False cannot be exported; choose True')
        make_traceable(self.network)

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        features = self.network.extract_feat(x)
        levels = Levels.of(features)
        return self.best(*self.decode(self.encode(features, levels), levels), size)

    def encode(self, features: Sequence[Tensor], levels: Levels) -> Tensor:
        """The memory of the encoder: maps (B, C, H_l, W_l) -> (B, V, C), with V cells in total."""
        network = self.network
        memory = torch.cat([feature.flatten(2) for feature in features], dim=2).transpose(1, 2)
        positions = [
            network.positional_encoding(None, input=feature[:1]).flatten(2) + embedding[:, None]
            for feature, embedding in zip(features, network.level_embed, strict=True)
        ]
        positions = torch.cat(positions, dim=2).mT  # (B, V, C)
        points = cell_centers(levels, memory)
        for layer in network.encoder.layers:
            memory = layer(
                query=memory,
                query_pos=positions,
                key_padding_mask=None,
                spatial_shapes=levels,
                reference_points=points,
            )
        return memory

    def decode(self, memory: Tensor, levels: Levels) -> tuple[Tensor, Tensor]:
        """Logits (B, Q, classes) and boxes (B, Q, 4): center and size, normalized coordinates."""
        network = self.network
        queries, _ = network.pre_decoder(memory, None, levels)
        decoded = network.forward_decoder(
            **queries,
            memory_mask=None,
            spatial_shapes=levels,
            level_start_index=None,
            valid_ratios=memory.new_ones(1, 1, 2),  # for all images and levels
        )
        logits, boxes = network.bbox_head(**decoded)
        return logits[-1], boxes[-1]

    def best(
        self, logits: Tensor, boxes: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The best pairs of query and class, like mmdet's ``DETRHead.predict_by_feat``."""
        head = self.network.bbox_head
        count = head.test_cfg.get('max_per_img', logits.shape[1])
        scores, index = logits.sigmoid().flatten(1).topk(count, dim=1)
        query = index // head.num_classes
        labels = index - query * head.num_classes  # the exporter loses the type of a remainder
        boxes = ops.to_pixels(ops.gather(bbox_cxcywh_to_xyxy(boxes), query), size)
        return ops.clip(boxes, size), scores, labels


def cell_centers(levels: Levels, like: Tensor) -> Tensor:
    """Centers of the cells of all levels, normalized coordinates x and y: (1, V, 1, 2)."""
    centers = []
    for height, width in levels.sizes:
        x, y = (
            (torch.arange(side, dtype=like.dtype, device=like.device) + 0.5) / side
            for side in (width, height)
        )
        grid = [x.expand(height, -1), y[:, None].expand(-1, width)]
        centers.append(torch.stack(grid, dim=-1).flatten(0, 1))
    return torch.cat(centers)[None, :, None]
