"""How much agreement with a plain backbone a warm start and distillation give, if small."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from mmeffvit.registry import MODELS
from mmeffvit.train.distillation import Agreement, MapDistillation, agreement
from tests.models.parity import randomized
from tests.models.test_contract import TINY

FORMS = {
    'DeiT': 'DeiTMobiAtt',
    'EfficientFormerV2': 'EfficientFormerV2MobiAtt',
    'PVTv2': 'PVTv2MobiAtt',
}
BATCH = 8


@dataclass(frozen=True)
class Recovery:
    """Agreement with the teacher on held-out images, before and after the same training."""

    before: Agreement
    after: Agreement


def config(family: str, **options: object) -> dict:
    return dict(type=f'mmeffvit.{family}', arch=TINY[family], **options)


def images(folder: Path) -> Tensor:
    """Generated images, normalized."""
    pictures = np.stack([cv2.imread(str(path)) for path in sorted(folder.iterdir())])
    return (torch.tensor(pictures).permute(0, 3, 1, 2).float() - 116) / 58


def attending(backbone: nn.Module) -> nn.Module:
    """Random weights with which attention matters: at first, its branches are close to zero."""
    randomized(backbone)
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if name.endswith('.scale'):
                parameter.uniform_(0.5, 1.5)
            elif '.attention.' in name and name.endswith('weight') and parameter.ndim > 1:
                parameter.normal_(0, parameter[0].numel() ** -0.5)
            elif name.endswith('.table'):
                parameter.normal_()
    return backbone


def mean_agreement(backbone: nn.Module, teacher: nn.Module, x: Tensor) -> Agreement:
    maps = agreement(backbone.eval(), teacher.eval(), x)
    errors, cosines = zip(*((found.relative_error, found.cosine) for found in maps), strict=True)
    return Agreement(sum(errors) / len(maps), sum(cosines) / len(maps))


def train(model: MapDistillation, x: Tensor, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.backbone.parameters(), lr=1e-3)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    model.train()
    for _ in range(steps):
        batch = x[torch.randperm(len(x))[:BATCH]]
        loss, _ = model.parse_losses(model(batch, mode='loss'))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()


def recover(family: str, data: Path, work_dir: Path, steps: int) -> Mapping[str, Recovery]:
    """Distill from a random teacher into its Mobile-Attention form, from its weights and without.

    Args:
        family: One of ``FORMS``.
        data: A generated set.
        work_dir: Folder for the weights of the teacher.
        steps: Of AdamW with 8 images each; the learning rate falls from 1e-3 to zero.

    Returns:
        By 'warm' and 'cold'.
    """
    torch.manual_seed(0)
    teacher = attending(MODELS.build(config(family)))
    torch.save(teacher.state_dict(), work_dir / 'plain.pth')
    released = dict(type='Pretrained', checkpoint=str(work_dir / 'plain.pth'))
    seen, held_out = (images(data / split) for split in ('train2017', 'val2017'))
    found = {}
    for start, init_cfg in (('warm', released), ('cold', None)):
        student = config(FORMS[family], norm_eval=True, init_cfg=init_cfg)
        model = MapDistillation(student, config(family, init_cfg=released))
        model.init_weights()
        before = mean_agreement(model.backbone, teacher, held_out)
        train(model, seen, steps)
        found[start] = Recovery(before, mean_agreement(model.backbone, teacher, held_out))
    return found
