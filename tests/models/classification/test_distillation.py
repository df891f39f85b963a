"""A student learns from its teacher beside the labels, and the teacher is in no checkpoint."""

from copy import deepcopy

import pytest
import torch
from torch.nn import functional as F

from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.classification.distillation import Teacher
from tests.models.classification.models import build, labeled, tiny_student, tiny_teacher


def batch() -> tuple[torch.Tensor, list]:
    return torch.randn(2, 3, 64, 64), labeled(0, 2)


@pytest.mark.parametrize(
    ('kind', 'temperature', 'alpha'), [('hard', 1.0, 0.5), ('soft', 1.0, 0.3), ('soft', 3.0, 1.0)]
)
def test_losses_are_those_of_the_equations(kind, temperature, alpha):
    model = build(tiny_student(distillation=kind, temperature=temperature, alpha=alpha)).train()
    images, samples = batch()
    losses = model.loss(images, samples)
    model.eval()  # the batch norms of the head are the only ones that a batch of two would change
    teacher = model.teacher(images)
    head = model.head.train()
    pooled = head.norm(model.backbone.train()(images)[-1]).mean(dim=(2, 3))
    scores, distilled = head.classifier(pooled), head.distilled(pooled)
    labels = torch.tensor([0, 2])
    assert losses['loss'].item() == pytest.approx(
        (1 - alpha) * F.cross_entropy(scores, labels).item(), rel=1e-5
    )
    if kind == 'hard':
        expected = F.cross_entropy(distilled, teacher.argmax(1))
    else:
        p, q = (F.softmax(s / temperature, dim=1) for s in (teacher, distilled))
        expected = temperature**2 * (p * (p.log() - q.log())).sum() / distilled.numel()
    assert losses['loss_distillation'].item() == pytest.approx(alpha * expected.item(), rel=1e-4)


def test_the_teacher_is_no_part_of_the_student_and_stays_as_it_is():
    model = build(tiny_student()).train()
    own = set(model.state_dict())
    before = None
    for _ in range(2):
        images, samples = batch()
        sum(model.loss(images, samples).values()).backward()
        teacher = model.teacher.model
        after = {key: value.clone() for key, value in teacher.state_dict().items()}
        assert before is None or all(torch.equal(after[key], before[key]) for key in after)
        before = after
    assert set(model.state_dict()) == own
    assert not teacher.training
    assert all(p.grad is None for p in teacher.parameters())
    assert all(p.grad is not None for p in model.parameters())
    assert deepcopy(model).teacher.model is teacher


def test_the_weights_of_a_teacher_are_loaded_completely_or_rejected(tmp_path):
    weights = build(tiny_teacher()).state_dict()
    torch.save(weights, tmp_path / 'teacher.pth')
    model = build(dict(tiny_student(), teacher_ckpt=str(tmp_path / 'teacher.pth')))
    model.teacher(torch.randn(1, 3, 64, 64))
    assert torch.equal(
        model.teacher.model.head.classifier.fc.weight, weights['head.classifier.fc.weight']
    )
    del weights['head.classifier.fc.weight']
    torch.save(weights, tmp_path / 'cut.pth')
    model = build(dict(tiny_student(), teacher_ckpt=str(tmp_path / 'cut.pth')))
    with pytest.raises(
        CheckpointError, match=r'teacher .*cut\.pth does not fit the model.*fc\.weight'
    ):
        model.teacher(torch.randn(1, 3, 64, 64))


def test_a_teacher_of_timm_has_the_names_of_timm(timm, tmp_path):
    sizes = dict(model_name='vit_tiny_patch16_224', depth=1, img_size=64, num_classes=3)
    weights = timm.create_model(**sizes).state_dict()
    torch.save(weights, tmp_path / 'vit.pth')
    settings = dict(type='mmpretrain.TimmClassifier', **sizes)
    teacher = Teacher(settings, str(tmp_path / 'vit.pth'))
    assert teacher(torch.randn(1, 3, 64, 64)).shape == (1, 3)
    assert torch.equal(teacher.model.model.head.weight, weights['head.weight'])


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(norm='layer'), "norm is 'layer'"),
        (dict(distillation='medium'), "distillation 'medium'"),
        (dict(alpha=2), 'alpha is 2'),
    ],
)
def test_an_invalid_head_is_rejected(changes, message):
    settings = tiny_student()
    settings['head'] = {**settings['head'], **changes}
    with pytest.raises((UserError, ValueError), match=message):
        build(settings)
