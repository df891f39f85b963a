"""The export graph of segmentors, from an image to a label map."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.errors import UserError

from .base import Graph, Preprocessing


class SegmentorGraph(Graph):
    """An ``EncoderDecoder`` of mmseg that processes whole images.

    Args:
        model: The segmentor; its auxiliary heads are not exported.

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
        super().__init__(model, Preprocessing.of(model.data_preprocessor))

    def logits(self, x: Tensor) -> Tensor:
        """(B, 3, H', W') -> (B, channels, h, w), at the resolution of the head."""
        return self.network.decode_head(self.network.extract_feat(x))

    def label_map(self, logits: Tensor, padded: tuple[int, int], size: tuple[int, int]) -> Tensor:
        """(B, channels, h, w) -> (B, H, W), resized as in mmseg.

        Args:
            logits: Logits at any resolution.
            padded: H' and W' of the padded images.
            size: H and W of the images.
        """
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
