"""Export graphs of models without boxes: backbones, classifiers and segmentors."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.errors import UserError

from . import ops
from .base import Graph, Preprocessing

MIN_CLASSES = 16  # with fewer, resizing all logits is about as fast


class BackboneGraph(Graph):
    """The maps of a backbone.

    Args:
        backbone: A backbone of ours, not fused.
        preprocessing: Preprocessing of the image; by default the released weights'.

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


class SegFormerFusion(nn.Module):
    """SegFormer's head with the convolution of its concatenated maps before their resize.

    A 1x1 convolution and a bilinear resize commute: every map is convolved at its own size, and the
    results are added. The logits are equal up to rounding, with a third of the MACs. The ``head``
    is a ``SegformerHead`` of mmseg or ours, fused.

    Shape:
        Maps (B, C, H, W) of a backbone or neck -> (B, classes, H, W), at the size of the first.
    """

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        fusion, self.in_index = head.fusion_conv, head.in_index
        self.align_corners, self.threshold = head.align_corners, head.threshold
        self.mode = head.interpolate_mode
        self.convs = nn.ModuleList()
        for conv, weight in zip(
            head.convs, fusion.conv.weight.split(head.channels, dim=1), strict=True
        ):
            part = nn.Conv2d(head.channels, len(weight), 1, bias=False)
            part.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
            self.convs.append(nn.Sequential(conv, part))
        self.convs[0][1].bias = fusion.conv.bias  # once
        norm = fusion.norm if fusion.with_norm else nn.Identity()
        self.logits = nn.Sequential(norm, fusion.activate, head.conv_seg)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        first, *others = (conv(maps[i]) for i, conv in zip(self.in_index, self.convs, strict=True))
        for other in others:
            first = first + F.interpolate(
                other, first.shape[2:], mode=self.mode, align_corners=self.align_corners
            )
        return self.logits(first)


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
        head = self.network.decode_head
        self.num_channels = head.out_channels
        if type(head).__name__ == 'SegformerHead':
            self.network.decode_head = SegFormerFusion(head)

    def logits(self, x: Tensor) -> Tensor:
        """(B, 3, H', W') -> (B, channels, h, w), at the resolution of the head."""
        return self.network.decode_head(self.network.extract_feat(x))

    def label_map(self, logits: Tensor, padded: tuple[int, int], size: tuple[int, int]) -> Tensor:
        """(B, channels, h, w) -> (B, H, W) with mmseg's resizing; ``padded`` is (H', W').

        Only classes that can win are resized, which gives the same label map in a fraction of the
        time.
        """
        if logits.shape[1] < MIN_CLASSES:
            return self.resized(logits, padded, size)
        kept = classes_that_can_win(logits)
        labels = self.resized(logits.index_select(1, kept), padded, size)
        return F.embedding(labels, kept[:, None]).squeeze(-1)

    def resized(self, logits: Tensor, padded: tuple[int, int], size: tuple[int, int]) -> Tensor:
        """The label map by way of all logits at full size, for runtimes that need fixed shapes."""
        head = self.network.decode_head
        logits = F.interpolate(logits, padded, mode='bilinear', align_corners=head.align_corners)
        if self.num_channels > 1:
            labels = logits.argmax(dim=1)
        else:
            labels = (logits[:, 0].sigmoid() > head.threshold).long()
        if self.preprocessing.size_divisor > 1:
            labels = labels[:, : size[0], : size[1]]
        return labels

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.label_map(self.logits(x), x.shape[2:], size),)


def classes_that_can_win(logits: Tensor) -> Tensor:
    """Classes (K,) of logits (B, C, h, w) that may be the best at some pixel after a resize.

    A resized value is a weighted mean of the logits at the four corners of a cell. The best of the
    corners' four winners is at least their mean, so a class that is below this mean at all corners
    cannot win in the cell. Class 0 is always among the result.
    """
    height, width = logits.shape[2:]
    winners = F.pad(logits.argmax(dim=1, keepdim=True).float(), (1, 1, 1, 1), mode='replicate')
    near = [winners[..., y : y + height, x : x + width] for y in range(3) for x in range(3)]
    own = logits.gather(1, torch.cat(near, dim=1).long()).unflatten(1, (3, 3))  # logits of winners
    sums = own[:, :-1] + own[:, 1:]
    sums = sums[:, :, :-1] + sums[:, :, 1:]  # in the four cells around a center: (B, 2, 2, h, w)
    missing = sums.amin(dim=(1, 2))[:, None] / 4 - logits
    rounding = 1e-5 * logits.abs().amax(dim=(0, 1, 2, 3))
    return ops.true_indices((missing.amin(dim=(0, 2, 3)) > rounding).logical_not())  # keeps NaN
