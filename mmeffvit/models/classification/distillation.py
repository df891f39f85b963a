"""A classifier that learns from a teacher and the labels (arXiv:2012.12877)."""

from copy import deepcopy
from typing import Any

import torch
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints import load_into, open_checkpoint
from mmeffvit.registries import MODELS

from .heads import ClassifierHead


class Teacher:
    """A classifier in eval mode, built on first use and not part of any model's state."""

    def __init__(self, settings: dict[str, Any], checkpoint: str | None) -> None:
        self.settings = settings
        self.checkpoint = checkpoint
        self.model: nn.Module | None = None

    def __deepcopy__(self, memo: dict) -> 'Teacher':
        return self  # the EMA of a student needs no teacher of its own

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Scores of the classes, (B, num_classes)."""
        if self.model is None:
            self.model = self.build()
        return self.model.to(images.device)(images)

    def build(self) -> nn.Module:
        model = MODELS.build(deepcopy(self.settings))
        model.init_weights()
        if self.checkpoint is not None:
            try:
                load_into(model, open_checkpoint(self.checkpoint))
            except CheckpointError as error:
                raise CheckpointError(f'the teacher cannot be loaded: {error}') from error
        return model.eval().requires_grad_(False)


@MODELS.register_module()
class DistilledClassifier(ImageClassifier):
    """mmpretrain's ``ImageClassifier``, trained on a teacher's scores and the labels.

    The teacher gets the images of the student, after mixing, and is in no checkpoint.

    Args:
        teacher: Config of a classifier of as many classes, for images normalized as the student's.
        teacher_ckpt: Its weights: a path, an http(s) address or ``hf://OWNER/REPOSITORY``.
        options: Options of ``ImageClassifier``; the head is a ``mmeffvit.ClassifierHead``, for a
            second classifier that learns from the teacher with ``distilled=True``.

    Raises:
        UserError: If the head is another one.
    """

    def __init__(
        self, *, teacher: dict[str, Any], teacher_ckpt: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        if not isinstance(self.head, ClassifierHead):
            raise UserError("a teacher needs model.head=dict(type='mmeffvit.ClassifierHead')")
        self.teacher = Teacher(teacher, teacher_ckpt)

    def loss(self, inputs: Tensor, data_samples: list[DataSample]) -> dict[str, Tensor]:
        scores = self.teacher(inputs)
        return self.head.loss(self.extract_feat(inputs), data_samples, teacher=scores)
