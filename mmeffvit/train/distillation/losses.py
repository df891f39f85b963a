"""Losses between the outputs of a student and a teacher for the same images.

Teachers have no gradients. Maps are (B, C, H, W); a teacher's of another stride are resized to the
student's, and :class:`Adapter` gives a student's the channels of the teacher.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import generalized_box_iou_loss

from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

EPSILON = 1e-6


def common_classes(
    student: Sequence[str], teacher: Sequence[str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Labels of the classes that both have by name, in the student's order.

    Args:
        student: Class names of the student.
        teacher: Class names of the teacher.

    Returns:
        Their labels in the student, and in the teacher.

    Raises:
        UserError: If there is no such class.
    """
    labels = {name: label for label, name in enumerate(teacher)}
    pairs = [(label, labels[name]) for label, name in enumerate(student) if name in labels]
    if not pairs:
        raise UserError(
            f'student and teacher have no class of the same name: {listed(map(repr, student), 4)} '
            f'and {listed(map(repr, teacher), 4)}; rename the classes of one of the two'
        )
    ours, theirs = zip(*pairs, strict=True)
    return ours, theirs


def resize_to(maps: Tensor, like: Tensor) -> Tensor:
    """Maps in the height and width of others, bilinear; unchanged if they are equal."""
    size = like.shape[-2:]
    if maps.shape[-2:] == size:
        return maps
    return F.interpolate(maps, size, mode='bilinear', align_corners=False)


def normalized(maps: Tensor) -> Tensor:
    """Every channel with mean 0 and variance 1 over the batch, as PKD does (arXiv:2207.02039).

    Shape:
        (B, C, H, W) -> the same.
    """
    centered = maps - maps.mean(dim=(0, 2, 3), keepdim=True)
    variance = centered.square().mean(dim=(0, 2, 3), keepdim=True)
    return centered / (variance.sqrt() + EPSILON)


class Adapter(nn.Conv2d):
    """A 1x1 convolution without bias, from the student's channels to the teacher's.

    Args:
        channels: Of the student.
        teacher_channels: Of the teacher.

    Shape:
        (B, ``channels``, H, W) -> (B, ``teacher_channels``, H, W).
    """

    def __init__(self, channels: int, teacher_channels: int) -> None:
        super().__init__(channels, teacher_channels, 1, bias=False)


class ChannelWise(nn.Module):
    """Channel-wise distillation, arXiv:2011.13256: each channel is a distribution over the pixels.

    ``T^2 / (B C) * sum_bc sum_i p_t(i) log(p_t(i) / p_s(i))`` with ``p = softmax_i(x(i) / T)`` over
    the pixels i of a channel. For the maps of necks, both are normalized before, as RTMDet's
    released recipes do in MMYOLO.

    Args:
        temperature: T, above 0.
        normalize: See :func:`normalized`.

    Shape:
        Two of (B, C, H, W) -> a number.
    """

    def __init__(self, temperature: float = 1.0, *, normalize: bool = False) -> None:
        super().__init__()
        self.temperature, self.normalize = temperature, normalize

    def forward(self, student: Tensor, teacher: Tensor) -> Tensor:
        teacher = resize_to(teacher, student)
        if self.normalize:
            student, teacher = normalized(student), normalized(teacher)
        ours, theirs = (
            (maps.flatten(0, 1).flatten(1) / self.temperature).log_softmax(dim=1)
            for maps in (student, teacher)
        )  # (B C, H W)
        divergence = F.kl_div(ours, theirs, reduction='batchmean', log_target=True)
        return divergence * self.temperature**2


class FeatureImitation(nn.Module):
    """Imitation of feature maps, in all pixels or only in masked ones.

    ``sum_i m(i) |s(i) - t(i)|^2 / (C sum_i m(i))``, with m = 1 without a mask: FitNets' loss
    (arXiv:1412.6550), and on normalized maps twice PKD's, ``2 (1 - r)`` with the Pearson
    correlation r (arXiv:2207.02039).

    Args:
        normalize: See :func:`normalized`.

    Shape:
        Two of (B, C, H, W), and a mask that broadcasts to (B, 1, H, W) -> a number.
    """

    def __init__(self, *, normalize: bool = False) -> None:
        super().__init__()
        self.normalize = normalize

    def forward(self, student: Tensor, teacher: Tensor, mask: Tensor | None = None) -> Tensor:
        teacher = resize_to(teacher, student)
        if self.normalize:
            student, teacher = normalized(student), normalized(teacher)
        squares = (student - teacher).square().mean(dim=1, keepdim=True)  # (B, 1, H, W)
        if mask is None:
            return squares.mean()
        mask = resize_to(mask.to(squares), squares).expand_as(squares)
        return (squares * mask).sum() / mask.sum().clamp(min=EPSILON)


class CrossHead(nn.Module):
    """CrossKD, arXiv:2306.11369: the teacher's head predicts from the student's maps.

    Those predictions, not the student's own, imitate the teacher's: labels and teacher do not pull
    the same layer in two directions. Here the full head is crossed: its input are the maps of the
    neck, each channel with the mean and deviation of the teacher's, like the authors' code.

    ``sum |sigmoid(x) - p|^beta BCE(x, p) / n + w sum_i S(i) (1 - GIoU(i)) / sum_i S(i)``, with the
    teacher's class probabilities p, its best class's probability S, and ``n = sum_i S(i)``. The
    authors take for n the number of assigned objects, which unlabeled images do not have.

    Args:
        beta: Of the quality focal loss (arXiv:2006.04388).
        box_weight: w.

    Shape:
        Class logits (N, C) and boxes (N, 4) as left, top, right, bottom, crossed and of the
        teacher -> a number.
    """

    def __init__(self, beta: float = 1.0, box_weight: float = 1.0) -> None:
        super().__init__()
        self.beta, self.box_weight = beta, box_weight

    def forward(
        self, logits: Tensor, boxes: Tensor, teacher_logits: Tensor, teacher_boxes: Tensor
    ) -> Tensor:
        targets = teacher_logits.sigmoid()
        weights = targets.amax(dim=1)  # (N,)
        count = weights.sum().clamp(min=EPSILON)
        focus = (logits.sigmoid() - targets).abs().pow(self.beta)
        entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction='none')
        # of a box whose sides are negative, GIoU has no lower bound
        boxes = torch.cat([boxes[:, :2], torch.maximum(boxes[:, :2], boxes[:, 2:])], dim=1)
        apart = generalized_box_iou_loss(boxes, teacher_boxes)  # (N,)
        return (focus * entropy).sum() / count + self.box_weight * (weights * apart).sum() / count


class PixelDivergence(nn.Module):
    """KL divergence of class probabilities by pixel, arXiv:1503.02531 and arXiv:1903.04197.

    ``T^2 mean_i sum_c p_t(c) log(p_t(c) / p_s(c))`` with ``p = softmax_c(x(c) / T)`` over the
    classes that student and teacher share.

    Args:
        temperature: T, above 0.
        labels: Labels of the shared classes in the student; None for all.
        teacher_labels: The same classes in the teacher.

    Shape:
        (B, C, H, W), (B, C', H', W') of the teacher, and pixels that count, which broadcast to
        (B, 1, H, W) -> a number.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        labels: Sequence[int] | None = None,
        teacher_labels: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.labels, self.teacher_labels = labels, teacher_labels

    def forward(self, student: Tensor, teacher: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.labels is not None:
            student, teacher = student[:, self.labels], teacher[:, self.teacher_labels]
        teacher = resize_to(teacher, student)
        ours, theirs = (
            (logits / self.temperature).log_softmax(dim=1) for logits in (student, teacher)
        )
        divergence = F.kl_div(ours, theirs, reduction='none', log_target=True)
        divergence = divergence.sum(dim=1, keepdim=True) * self.temperature**2  # (B, 1, H, W)
        if mask is None:
            return divergence.mean()
        mask = mask.to(divergence).expand_as(divergence)
        return (divergence * mask).sum() / mask.sum().clamp(min=EPSILON)


def moments_of(maps: Tensor, like: Tensor) -> Tensor:
    """Maps whose channels have the mean and the deviation of others, over batch and pixels."""
    mean = like.mean(dim=(0, 2, 3), keepdim=True)
    deviation = like.std(dim=(0, 2, 3), keepdim=True, unbiased=False)
    return normalized(maps) * deviation + mean
