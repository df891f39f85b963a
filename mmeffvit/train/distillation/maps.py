"""Train a backbone to imitate the feature maps of another one, on unlabeled images."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from mmengine.model import BaseModel
from torch import Tensor, nn

from mmeffvit.registries import MODELS


@MODELS.register_module()
class MapDistillation(BaseModel):
    """Train a backbone to imitate the maps of a teacher.

    The loss of a map s is the square of its relative error, ``|s - t|^2 / |t|^2`` over the batch,
    with t the teacher's: no map weighs more since it has larger values. The mean relative
    error is logged.

    A checkpoint of a run loads as weights of the backbone, by its path in ``init_cfg``.

    Args:
        backbone: Config of the backbone to train.
        teacher: Config of the backbone to imitate, which is not trained.
        data_preprocessor: See mmengine's models.
        init_cfg: See mmengine.

    Raises:
        ValueError: If their maps differ in channels or strides.
    """

    def __init__(
        self,
        backbone: dict,
        teacher: dict,
        data_preprocessor: dict | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(data_preprocessor, init_cfg)
        self.backbone = MODELS.build(backbone)
        self.teacher = MODELS.build(teacher).requires_grad_(False)
        returned = [
            tuple(zip(m.channels, m.strides, strict=True)) for m in (self.backbone, self.teacher)
        ]
        if returned[0] != returned[1]:
            raise ValueError(
                f'the maps of the backbone have channels and strides {returned[0]}, unlike the '
                f'teacher {returned[1]}; choose the same variant and out_indices'
            )

    def train(self, mode: bool = True) -> 'MapDistillation':
        """Set the mode of the backbone; the teacher stays in eval mode."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(
        self, inputs: Tensor, data_samples: object = None, mode: str = 'tensor'
    ) -> tuple[Tensor, ...] | dict[str, Tensor]:
        """The maps of the backbone, or for ``mode='loss'`` a loss for each."""
        maps = self.backbone(inputs)
        if mode != 'loss':
            return maps
        with torch.no_grad():
            targets = self.teacher(inputs)
        losses = [relative_square(*pair) for pair in zip(maps, targets, strict=True)]
        named = {f'loss_map_{i}': loss for i, loss in enumerate(losses)}
        return named | dict(relative_error=torch.stack(losses).detach().sqrt().mean())


@dataclass(frozen=True)
class Agreement:
    """Distance of a map from a teacher's.

    Args:
        relative_error: ``|s - t| / |t|`` over the full map.
        cosine: Mean over the cells of the cosine between their channels.
    """

    relative_error: float
    cosine: float


@torch.no_grad()
def agreement(backbone: nn.Module, teacher: nn.Module, images: Tensor) -> list[Agreement]:
    """Compare the maps of two backbones in eval mode, from fine to coarse.

    Args:
        backbone: The one to judge.
        teacher: The one to agree with.
        images: (B, 3, H, W), normalized.
    """
    return [
        Agreement(
            float(relative_square(feature, target).sqrt()),
            float(F.cosine_similarity(feature, target).mean()),
        )
        for feature, target in zip(backbone(images), teacher(images), strict=True)
    ]


def relative_square(feature: Tensor, target: Tensor) -> Tensor:
    """``|s - t|^2 / |t|^2``, in float32."""
    target = target.float()
    return (feature.float() - target).square().sum() / target.square().sum()
