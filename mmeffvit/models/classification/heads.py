"""Heads of the official classifiers: norms, a linear layer, a distilled second one."""

from collections.abc import Sequence
from functools import partial

import torch.nn.functional as F
from mmpretrain.models.heads import ClsHead
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmeffvit.registries import MODELS

NORMS = ('none', 'map', 'pooled', 'tokens')
DISTILLATIONS = ('hard', 'soft')


class Classifier(nn.Module):
    """Optional batch norm and a linear layer.

    Shape:
        (B, in_channels) -> (B, num_classes).
    """

    def __init__(self, in_channels: int, num_classes: int, *, norm: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(in_channels) if norm else nn.Identity()
        self.fc = nn.Linear(in_channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(x))


def distillation_loss(scores: Tensor, teacher: Tensor, kind: str, temperature: float) -> Tensor:
    """DeiT's loss of a student against its teacher (arXiv:2012.12877, equations 2 and 3).

    Args:
        scores: Scores of the student, (B, num_classes), before softmax.
        teacher: Scores of the teacher.
        kind: 'hard' compares with the teacher's first class, 'soft' with its distribution.
        temperature: Divides both scores of the soft loss.
    """
    if kind == 'hard':
        return F.cross_entropy(scores, teacher.argmax(dim=1))
    student = F.log_softmax(scores / temperature, dim=1)
    target = F.log_softmax(teacher / temperature, dim=1)
    # the mean over all values, not over images, as in DeiT's code
    return F.kl_div(student, target, reduction='sum', log_target=True) * (
        temperature**2 / scores.numel()
    )


@MODELS.register_module()
class ClassifierHead(ClsHead):
    """Mean of the last map, or class tokens, and a linear layer, like the official classifiers.

    ========================================  ========  =========
    model                                     ``norm``  distilled
    ========================================  ========  =========
    MobileViTv2, PVTv2                        'none'    no
    SwiftFormer, EfficientFormerV2            'map'     yes
    SHViT                                     'pooled'  optional
    DeiT, with ``output='class_tokens'``      'tokens'  optional
    ========================================  ========  =========

    Args:
        num_classes: Number of classes.
        in_channels: Channels of the backbone's last map.
        norm: 'none', 'map' (batch norm before the mean), 'pooled' (batch norm after it) or 'tokens'
            (layer norm of class tokens: one, or two if distilled).
        distilled: A second classifier, which learns from a teacher. In tests the scores of both
            are averaged, and in training without a teacher too. Without it, the only classifier
            learns from the teacher and from the labels.
        distillation: 'hard' or 'soft'; see :func:`distillation_loss`.
        alpha: Part of the distillation in the loss, in [0, 1].
        temperature: Temperature of the soft distillation.
        init_cfg: See mmengine.
        options: Options of mmpretrain's ``ClsHead``: `loss`, `topk`, `cal_acc`.

    Shape:
        A sequence of maps, the last of them (B, in_channels, H, W), or of class tokens,
        (B, T, in_channels) -> (B, num_classes).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        *,
        norm: str = 'none',
        distilled: bool = False,
        distillation: str = 'hard',
        alpha: float = 0.5,
        temperature: float = 1.0,
        init_cfg: dict | None = None,
        **options: object,
    ) -> None:
        super().__init__(
            init_cfg=init_cfg or dict(type='TruncNormal', layer='Linear', std=0.02), **options
        )
        if norm not in NORMS or distillation not in DISTILLATIONS:
            raise ValueError(
                f'norm is {norm!r} and distillation {distillation!r}; choose from {NORMS} and '
                f'{DISTILLATIONS}'
            )
        if not 0 <= alpha <= 1 or temperature <= 0:
            raise ValueError(
                f'alpha is {alpha} and temperature {temperature}; choose alpha in [0, 1] and a '
                'temperature above 0'
            )
        self.num_classes = num_classes
        self.in_channels = in_channels
        self.distillation, self.alpha, self.temperature = distillation, alpha, temperature
        norms = dict(map=nn.BatchNorm2d, tokens=partial(nn.LayerNorm, eps=1e-6))
        self.tokens = norm == 'tokens'
        self.norm = norms[norm](in_channels) if norm in norms else nn.Identity()
        pooled = norm == 'pooled'
        self.classifier = Classifier(in_channels, num_classes, norm=pooled)
        self.distilled = Classifier(in_channels, num_classes, norm=pooled) if distilled else None

    def pre_logits(self, feats: Sequence[Tensor]) -> Tensor:
        return self.inputs(feats)[0]

    def inputs(self, feats: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The input of each classifier, (B, in_channels)."""
        x, count = self.norm(feats[-1]), 1 if self.distilled is None else 2
        if not self.tokens:
            return (x.mean(dim=(2, 3)),) * count
        if x.shape[1] != count:
            raise ValueError(
                f'{x.shape[1]} class tokens for {count} classifiers: choose '
                f'class_tokens={count} in the backbone'
            )
        return x.unbind(1)

    def forward(self, feats: Sequence[Tensor]) -> Tensor:
        x, *distilled = self.inputs(feats)
        scores = self.classifier(x)
        return (scores + self.distilled(*distilled)) / 2 if distilled else scores

    def loss(
        self,
        feats: Sequence[Tensor],
        data_samples: list[DataSample],
        teacher: Tensor | None = None,
        **options: object,
    ) -> dict[str, Tensor]:
        """The losses by name; the teacher's scores are (B, num_classes)."""
        if teacher is None:
            return super().loss(feats, data_samples, **options)
        x, *distilled = self.inputs(feats)
        scores = self.classifier(x)
        losses = self._get_loss(scores, data_samples, **options)
        losses['loss'] = losses['loss'] * (1 - self.alpha)
        losses['loss_distillation'] = self.alpha * distillation_loss(
            self.distilled(*distilled) if distilled else scores,
            teacher,
            self.distillation,
            self.temperature,
        )
        return losses
