"""Every loss equals its equation, written naively in float64."""

import math

import pytest
import torch
from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.train.distillation import (
    Adapter,
    ChannelWise,
    CrossHead,
    FeatureImitation,
    PixelDivergence,
    common_classes,
)
from mmeffvit.train.distillation.losses import moments_of, normalized

MAPS = (2, 3, 4, 5)


def two(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(*shape, dtype=torch.float64), torch.randn(*shape, dtype=torch.float64)


def some_boxes(count: int) -> Tensor:
    starts, sides = torch.rand(2, count, 2, dtype=torch.float64) * 9 + 1
    return torch.cat([starts, starts + sides], dim=1)


def softmax(values: list[float]) -> list[float]:
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def divergence(student: list[float], teacher: list[float]) -> float:
    pairs = zip(softmax(teacher), softmax(student), strict=True)
    return sum(p * math.log(p / q) for p, q in pairs)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def entropy(logit: float, target: float) -> float:
    p = sigmoid(logit)
    return -target * math.log(p) - (1 - target) * math.log(1 - p)


def giou(first: list[float], second: list[float]) -> float:
    area = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    wide, high = (
        max(0, min(first[i + 2], second[i + 2]) - max(first[i], second[i])) for i in (0, 1)
    )
    hull = math.prod(max(first[i + 2], second[i + 2]) - min(first[i], second[i]) for i in (0, 1))
    union = sum(area) - wide * high
    return wide * high / union - (hull - union) / hull


@pytest.mark.parametrize('temperature', [1.0, 4.0])
def test_channel_wise_distillation_equals_its_equation(temperature):
    student, teacher = two(*MAPS)
    expected = 0.0
    for b in range(MAPS[0]):
        for c in range(MAPS[1]):
            ours, theirs = ((m[b, c] / temperature).flatten().tolist() for m in (student, teacher))
            expected += temperature**2 * divergence(ours, theirs) / (MAPS[0] * MAPS[1])
    assert float(ChannelWise(temperature)(student, teacher)) == pytest.approx(expected, rel=1e-9)


def test_normalized_channels_have_mean_0_and_variance_1_over_the_batch():
    maps, other = two(*MAPS)
    values = normalized(maps * 7 + 3).transpose(0, 1).flatten(1)
    assert values.mean(dim=1).abs().max() < 1e-9
    assert values.var(dim=1, unbiased=False).tolist() == pytest.approx([1] * 3, rel=1e-5)
    moved = moments_of(maps, other * 5 + 2).transpose(0, 1).flatten(1)
    assert moved.mean(dim=1).tolist() == pytest.approx(
        (other * 5 + 2).mean(dim=(0, 2, 3)).tolist(), rel=1e-5
    )
    scaled = ChannelWise(normalize=True)
    assert float(scaled(maps, other)) == pytest.approx(float(scaled(maps * 9 - 4, other)), rel=1e-4)


@pytest.mark.parametrize('masked', [False, True])
def test_imitation_equals_its_equation_in_all_pixels_and_in_masked_ones(masked):
    student, teacher = two(*MAPS)
    mask = torch.rand(2, 1, 4, 5, dtype=torch.float64) if masked else None
    total = weights = 0.0
    for b in range(2):
        for i in range(4):
            for j in range(5):
                weight = float(mask[b, 0, i, j]) if masked else 1.0
                difference = student[b, :, i, j] - teacher[b, :, i, j]
                total += weight * sum(d * d for d in difference.tolist()) / 3
                weights += weight
    found = FeatureImitation()(student, teacher, mask)
    assert float(found) == pytest.approx(total / weights, rel=1e-9)


def test_imitation_of_normalized_maps_is_a_correlation():
    student, teacher = two(*MAPS)
    rows = [m.transpose(0, 1).flatten(1) for m in (student, teacher)]
    r = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in zip(*rows, strict=True)]
    expected = 2 * (1 - sum(r) / 3)
    found = FeatureImitation(normalize=True)(student, teacher)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_crossed_predictions_are_compared_as_in_their_equation():
    (logits, teacher), boxes, others = two(6, 3), some_boxes(6), some_boxes(6)
    total = count = 0.0
    for i in range(6):
        best = max(map(sigmoid, teacher[i].tolist()))
        count += best
        total += 2.0 * best * (1 - giou(boxes[i].tolist(), others[i].tolist()))
        for x, t in zip(logits[i].tolist(), map(sigmoid, teacher[i].tolist()), strict=True):
            total += abs(sigmoid(x) - t) * entropy(x, t)
    found = CrossHead(box_weight=2.0)(logits, boxes, teacher, others)
    assert float(found) == pytest.approx(total / count, rel=1e-6)


@pytest.mark.parametrize('masked', [False, True])
def test_divergence_of_pixels_is_over_the_classes_that_both_know(masked):
    student = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    teacher = torch.randn(2, 4, 4, 5, dtype=torch.float64)
    ours, theirs = common_classes(('sky', 'tree', 'road'), ('car', 'road', 'sky', 'sea'))
    assert (ours, theirs) == ((0, 2), (2, 1))
    mask = torch.rand(2, 1, 4, 5) > 0.5 if masked else None
    found = []
    for b in range(2):
        for i in range(4):
            for j in range(5):
                if not masked or mask[b, 0, i, j]:
                    chosen = (student, list(ours)), (teacher, list(theirs))
                    pair = ((m[b, labels, i, j] / 2).tolist() for m, labels in chosen)
                    found.append(4 * divergence(*pair))
    loss = PixelDivergence(2.0, ours, theirs)
    expected = sum(found) / len(found)
    assert float(loss(student, teacher, mask)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    'loss', [ChannelWise(), ChannelWise(normalize=True), FeatureImitation(), PixelDivergence()]
)
def test_a_teacher_of_another_stride_is_resized_and_equal_maps_cost_nothing(loss):
    student, teacher = torch.randn(2, 3, 8, 6), torch.randn(2, 3, 4, 3)
    resized = torch.nn.functional.interpolate(teacher, (8, 6), mode='bilinear')
    assert float(loss(student, teacher)) == pytest.approx(float(loss(student, resized)))
    assert float(loss(student, student)) == pytest.approx(0, abs=1e-6)


def test_an_adapter_gives_the_channels_of_the_teacher_and_is_trained():
    adapter = Adapter(3, 7)
    maps = adapter(torch.randn(2, 3, 4, 4))
    assert maps.shape == (2, 7, 4, 4)
    ChannelWise(normalize=True)(maps, torch.randn(2, 7, 2, 2)).backward()
    assert adapter.weight.grad.abs().sum() > 0


def test_classes_without_a_common_name_are_a_user_error():
    with pytest.raises(UserError, match="no class of the same name: 'bolt' and 'nut'"):
        common_classes(('bolt',), ('nut',))
