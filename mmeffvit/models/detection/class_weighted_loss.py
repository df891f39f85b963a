"""A loss for detectors of classes of which some are rare."""

from collections.abc import Sequence
from typing import Any

from mmdet.models.losses import QualityFocalLoss
from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.registries import MODELS


@MODELS.register_module()
class ClassWeightedQualityFocalLoss(QualityFocalLoss):
    """mmdet's ``QualityFocalLoss`` with a weight for each class of objects, and 1 for background.

    Args:
        class_weight: The weight of each class.
        options: Options of ``QualityFocalLoss``.

    Shape:
        Logits (N, num_classes), labels (N,) in which num_classes is background, and scores (N,) ->
        a scalar.
    """

    def __init__(self, class_weight: Sequence[float], **options: Any) -> None:
        super().__init__(**options)
        self.class_weight = (*class_weight, 1.0)

    def forward(
        self,
        pred: Tensor,
        target: tuple[Tensor, Tensor],
        weight: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        if len(self.class_weight) != pred.shape[1] + 1:
            raise UserError(
                f'class_weight has {len(self.class_weight) - 1} values for {pred.shape[1]} classes'
            )
        own = pred.new_tensor(self.class_weight)[target[0]]
        return super().forward(pred, target, own if weight is None else own * weight, **options)
