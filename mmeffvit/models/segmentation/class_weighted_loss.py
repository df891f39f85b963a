"""A loss for label maps in which some classes are rare."""

from collections.abc import Sequence
from typing import Any

from mmseg.models.losses import CrossEntropyLoss
from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.registries import MODELS

KEPT = 0.25  # exponent of the weights in what the network predicts


@MODELS.register_module()
class ClassWeightedCrossEntropy(CrossEntropyLoss):
    """mmseg's ``CrossEntropyLoss`` with a weight for each class, which predictions keep in part.

    A network that is trained with weights predicts probabilities times weights, and finds rare
    classes in too many places. Here, the logits receive three quarters of the logarithms of the
    weights in training only (logit adjustment, arXiv:2007.07314), so that it predicts
    probabilities times fourth roots of the weights. mmseg's ``class_weight`` is averaged over the
    weights of a batch, and fails where label maps have ignored pixels; these have weight 0 here.

    Args:
        class_weight: The weight of each class, above 0.
        options: Options of ``CrossEntropyLoss``.

    Shape:
        Logits (B, num_classes, H, W), labels (B, H, W) -> a scalar.
    """

    def __init__(self, class_weight: Sequence[float], **options: Any) -> None:
        super().__init__(**options)
        self.weights = class_weight

    def forward(
        self,
        cls_score: Tensor,
        label: Tensor,
        weight: Tensor | None = None,
        *,
        ignore_index: int,
        **options: Any,
    ) -> Tensor:
        weights = cls_score.new_tensor(self.weights)
        if len(weights) != cls_score.shape[1]:
            raise UserError(
                f'class_weight has {len(weights)} values for {cls_score.shape[1]} classes'
            )
        shifted = cls_score + (1 - KEPT) * weights.log()[:, None, None]
        own = weights[label.masked_fill(label == ignore_index, 0)]
        own = own if weight is None else own * weight
        return super().forward(shifted, label, own, ignore_index=ignore_index, **options)
