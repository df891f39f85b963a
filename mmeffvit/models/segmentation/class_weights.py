"""Losses that are weighted by class, for label maps with rare classes."""

from collections.abc import Sequence

from mmseg.structures.sampler import BasePixelSampler
from torch import Tensor, nn

from mmeffvit.registries import TASK_UTILS


@TASK_UTILS.register_module()
class ClassWeights(BasePixelSampler):
    """Weights the loss of every pixel by its class: ``sampler`` of a head of mmseg.

    ``class_weight`` of mmseg's ``CrossEntropyLoss`` is averaged over the weights of a batch, and
    fails where label maps have ignored pixels; these have weight 0 here, in any loss.

    Args:
        weights: The weight of each class.
        context: The head, which mmseg adds.

    Shape:
        Logits (B, num_classes, H, W), labels (B, 1, H, W) -> weights (B, H, W).
    """

    def __init__(self, weights: Sequence[float], context: nn.Module) -> None:
        super().__init__()
        self.weights, self.ignored = weights, context.ignore_index

    def sample(self, seg_logit: Tensor, seg_label: Tensor) -> Tensor:
        labels = seg_label.squeeze(1)
        is_ignored = labels == self.ignored
        weights = seg_logit.new_tensor(self.weights)[labels.masked_fill(is_ignored, 0)]
        return weights.masked_fill(is_ignored, 0)
