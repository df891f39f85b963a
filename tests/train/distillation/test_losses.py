"""Every loss equals its equation, from public functions in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical, kl_divergence
from torchvision.ops import generalized_box_iou

from mmeffvit.errors import UserError
from mmeffvit.train.distillation import (
    ChannelWise,
    CrossHead,
    FeatureImitation,
    PixelDivergence,
    common_classes,
)
from mmeffvit.train.distillation.losses import moments_of

MAPS = (2, 3, 4, 5)


def two(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(*shape, dtype=torch.float64), torch.randn(*shape, dtype=torch.float64)


def some_boxes(count: int) -> Tensor:
    starts, sides = torch.rand(2, count, 2, dtype=torch.float64) * 9 + 1
    return torch.cat([starts, starts + sides], dim=1)


def divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """KL divergence of the distributions over the last dimension."""
    return kl_divergence(Categorical(logits=teacher), Categorical(logits=student))


@pytest.mark.parametrize('temperature', [1.0, 4.0])
def test_channel_wise_distillation_equals_its_equation(temperature):
    student, teacher = two(*MAPS)
    rows = ((maps / temperature).flatten(2) for maps in (student, teacher))
    expected = float(temperature**2 * divergence(*rows).mean())
    assert float(ChannelWise(temperature)(student, teacher)) == pytest.approx(expected, rel=1e-9)


def test_channels_get_the_means_and_variances_of_others_over_the_batch_and_lose_their_own():
    maps, other = two(*MAPS)
    pair = moments_of(maps * 7 + 3, other * 5 + 2), other * 5 + 2
    found, expected = (torch.var_mean(m, dim=(0, 2, 3), correction=0) for m in pair)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    scaled = ChannelWise(normalize=True)
    assert float(scaled(maps, other)) == pytest.approx(float(scaled(maps * 9 - 4, other)), rel=1e-4)


@pytest.mark.parametrize('masked', [False, True])
def test_imitation_equals_its_equation_in_all_pixels_and_in_masked_ones(masked):
    student, teacher = two(*MAPS)
    mask = torch.rand(2, 1, 4, 5, dtype=torch.float64) if masked else None
    squares = F.mse_loss(student, teacher, reduction='none').mean(dim=1, keepdim=True)
    expected = np.average(squares, weights=mask)
    found = FeatureImitation()(student, teacher, mask)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_imitation_of_normalized_maps_is_a_correlation():
    student, teacher = two(*MAPS)
    rows = [m.transpose(0, 1).flatten(1) for m in (student, teacher)]
    r = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in zip(*rows, strict=True)]
    expected = 2 * (1 - sum(r) / 3)
    found = FeatureImitation(normalize=True)(student, teacher)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_crossed_predictions_are_compared_as_in_their_equation():
    (logits, teacher), boxes, others = two(6, 3), some_boxes(6), some_boxes(6)
    targets, best = teacher.sigmoid(), teacher.sigmoid().amax(dim=1)
    entropies = F.binary_cross_entropy(logits.sigmoid(), targets, reduction='none')
    total = ((logits.sigmoid() - targets).abs() * entropies).sum()
    total += 2.0 * best @ (1 - generalized_box_iou(boxes, others).diagonal())
    found = CrossHead(box_weight=2.0)(logits, boxes, teacher, others)
    assert float(found) == pytest.approx(float(total / best.sum()), rel=1e-6)


def test_crossed_boxes_with_negative_sides_cost_no_less_than_empty_ones():
    logits, teacher = torch.zeros(1, 3), torch.zeros(1, 3)
    right = torch.tensor([[10.0, 10, 20, 20]])
    found = [
        float(CrossHead()(logits, torch.tensor([[15.0, 15, end, end]]), teacher, right))
        for end in (15, 14, -500)
    ]
    assert found[0] >= 1
    assert found == pytest.approx(found[:1] * 3)


@pytest.mark.parametrize('masked', [False, True])
def test_divergence_of_pixels_is_over_the_classes_that_both_know(masked):
    student = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    teacher = torch.randn(2, 4, 4, 5, dtype=torch.float64)
    ours, theirs = common_classes(('sky', 'tree', 'road'), ('car', 'road', 'sky', 'sea'))
    assert (ours, theirs) == ((0, 2), (2, 1))
    mask = torch.rand(2, 1, 4, 5) > 0.5 if masked else None
    chosen = (student[:, list(ours)], teacher[:, list(theirs)])
    expected = 4 * divergence(*(maps.movedim(1, -1) / 2 for maps in chosen))  # (B, H, W)
    expected = expected[mask[:, 0]] if masked else expected
    loss = PixelDivergence(2.0, ours, theirs)
    assert float(loss(student, teacher, mask)) == pytest.approx(float(expected.mean()), rel=1e-9)


@pytest.mark.parametrize(
    'loss', [ChannelWise(), ChannelWise(normalize=True), FeatureImitation(), PixelDivergence()]
)
def test_a_teacher_of_another_stride_is_resized_and_equal_maps_cost_nothing(loss):
    student, teacher = torch.randn(2, 3, 8, 6), torch.randn(2, 3, 4, 3)
    resized = torch.nn.functional.interpolate(teacher, (8, 6), mode='bilinear')
    assert float(loss(student, teacher)) == pytest.approx(float(loss(student, resized)))
    assert float(loss(student, student)) == pytest.approx(0, abs=1e-6)


def test_classes_without_a_common_name_are_a_user_error():
    with pytest.raises(UserError, match="no class of the same name: 'bolt' and 'nut'"):
        common_classes(('bolt',), ('nut',))
