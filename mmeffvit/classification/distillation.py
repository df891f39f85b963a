"""A classifier that learns from a teacher beside the labels (arXiv:2012.12877)."""

from copy import deepcopy
from typing import Any

import torch
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmeffvit.checkpoints.models import read_model
from mmeffvit.checkpoints.read import weights_in
from mmeffvit.checkpoints.sources import fetch
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.registry import MODELS


class Teacher:
    """A classifier in eval mode, built when it is first asked; no part of any model's state.

    Args:
        settings: Its config.
        checkpoint: Its weights; None leaves the first ones.
    """

    def __init__(self, settings: dict[str, Any], checkpoint: str | None) -> None:
        self.settings = settings
        self.checkpoint = checkpoint
        self.model: nn.Module | None = None

    def __deepcopy__(self, memo: dict) -> 'Teacher':
        return self  # the EMA of a student needs no teacher of its own

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Scores of the classes, (B, num_classes).

        Raises:
            CheckpointError: If the weights cannot be read, or are of another model.
        """
        if self.model is None:
            self.model = self.build()
        return self.model.to(images.device)(images)

    def build(self) -> nn.Module:
        model = MODELS.build(deepcopy(self.settings))
        model.init_weights()
        if self.checkpoint is not None:
            state = weights_in(read_model(fetch(self.checkpoint)))
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                raise CheckpointError(
                    f'{self.checkpoint} does not fit the teacher: {str(error)[:500]}'
                ) from error
        return model.eval().requires_grad_(False)


@MODELS.register_module()
class DistilledClassifier(ImageClassifier):
    """mmpretrain's ``ImageClassifier`` whose head has a second classifier taught by a teacher.

    The teacher gets the images of the student, after mixing, and is in no checkpoint.

    Args:
        teacher: Config of a classifier of as many classes, for images normalized as the student's.
        teacher_ckpt: Its weights: a path, an http(s) address or ``hf://OWNER/REPOSITORY``.
        options: Those of ``ImageClassifier``; the head is a ``mmeffvit.ClassifierHead`` with
            ``distilled=True``.

    Raises:
        UserError: If the head has no classifier to be taught.
    """

    def __init__(
        self, *, teacher: dict[str, Any], teacher_ckpt: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        if getattr(self.head, 'distilled', None) is None:
            raise UserError(
                "a teacher needs model.head=dict(type='mmeffvit.ClassifierHead', distilled=True)"
            )
        self.teacher = Teacher(teacher, teacher_ckpt)

    def loss(self, inputs: Tensor, data_samples: list[DataSample]) -> dict[str, Tensor]:
        scores = self.teacher(inputs)
        return self.head.loss(self.extract_feat(inputs), data_samples, teacher=scores)
