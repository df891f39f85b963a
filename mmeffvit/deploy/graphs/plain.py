"""Export graphs of models without boxes: backbones, classifiers and segmentors."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.errors import UserError

from .base import Graph, Preprocessing


class BackboneGraph(Graph):
    """The maps of a backbone.

    Args:
        backbone: A backbone of ours, not fused.
        preprocessing: Preprocessing of the image; by default that of the released weights.

    Shape:
        images (B, 3, H, W) -> maps (B, C, H', W'), named after their strides, and their stages
        where several have the same.
    """

    task = 'features'

    def __init__(self, backbone: nn.Module, preprocessing: Preprocessing | None = None) -> None:
        if preprocessing is None:
            preprocessing = Preprocessing(mean=backbone.input_mean, std=backbone.input_std)
        super().__init__(backbone, preprocessing)
        strides = backbone.strides
        self.output_names = tuple(
            f'stride_{stride}' + (f'_stage_{index}' if strides.count(stride) > 1 else '')
            for index, stride in zip(backbone.out_indices, strides, strict=True)
        )

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.network(x)


class ClassifierGraph(Graph):
    """An ``ImageClassifier`` of mmpretrain whose head returns one score per class.

    Shape:
        images (B, 3, H, W) -> scores (B, classes), which add up to 1.
    """

    task = 'classification'
    output_names = ('scores',)

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        logits = self.network.head(self.network.extract_feat(x))
        return (logits.softmax(dim=1),)


class SegmentorGraph(Graph):
    """An ``EncoderDecoder`` of mmseg that processes whole images, without its auxiliary heads.

    Shape:
        images (B, 3, H, W) -> label_map (B, H, W), int64. With a single output channel, 1 where its
        probability is above the threshold of the head, otherwise 0.

    Raises:
        UserError: If its ``test_cfg`` uses sliding windows.
    """

    task = 'semantic segmentation'
    output_names = ('label_map',)

    def __init__(self, model: nn.Module) -> None:
        mode = model.test_cfg.get('mode', 'whole')
        if mode != 'whole':
            raise UserError(
                f'test_cfg has mode {mode!r}, and only whole images can be exported: '
                '--cfg-options model.test_cfg.mode=whole'
            )
        super().__init__(model)

    def logits(self, x: Tensor) -> Tensor:
        """(B, 3, H', W') -> (B, channels, h, w), at the resolution of the head."""
        return self.network.decode_head(self.network.extract_feat(x))

    def label_map(self, logits: Tensor, padded: tuple[int, int], size: tuple[int, int]) -> Tensor:
        """(B, channels, h, w) -> (B, H, W), resized as in mmseg; ``padded`` is (H', W')."""
        head = self.network.decode_head
        logits = F.interpolate(logits, padded, mode='bilinear', align_corners=head.align_corners)
        if logits.shape[1] > 1:
            labels = logits.argmax(dim=1)
        else:
            labels = (logits[:, 0].sigmoid() > head.threshold).long()
        if self.preprocessing.size_divisor > 1:
            labels = labels[:, : size[0], : size[1]]
        return labels

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.label_map(self.logits(x), x.shape[2:], size),)
