"""Focal loss of arXiv:1708.02002, with p a sigmoid per class."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import in_float32


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write ``-alpha (1 - p)^gamma log p`` at labels.

    Elsewhere it is ``-(1 - alpha) p^gamma log(1 - p)``. The background is label C; there is a
    weight for each class, or none.

    Shape:
        (N, C), (N,) -> (N, C)
    """
    x = in_float32(input)
    is_label = one_hot(target, x.shape[1])
    loss = torch.where(
        is_label,
        -alpha * (-x).sigmoid() ** gamma * F.logsigmoid(x),
        -(1 - alpha) * x.sigmoid() ** gamma * F.logsigmoid(-x),
    )
    output.copy_(loss * class_weights(weight, target)[:, None])


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of :func:`sigmoid_focal_loss_forward` by its logits."""
    x = in_float32(input)
    p, q = x.sigmoid(), (-x).sigmoid()
    is_label = one_hot(target, x.shape[1])
    grad = torch.where(
        is_label,
        -alpha * q**gamma * (q - gamma * p * F.logsigmoid(x)),
        -(1 - alpha) * p**gamma * (gamma * q * F.logsigmoid(-x) - p),
    )
    grad_input.copy_(grad * class_weights(weight, target)[:, None])


def one_hot(target: Tensor, num_classes: int) -> Tensor:
    return target[:, None] == torch.arange(num_classes, device=target.device)


def class_weights(weight: Tensor, target: Tensor) -> Tensor:
    """Return the weight of each label, 1 without weights and for the background."""
    if weight.numel() == 0:
        return torch.ones_like(target, dtype=torch.float32)
    is_class = (target >= 0) & (target < len(weight))
    return torch.where(is_class, in_float32(weight)[target.clamp(0, len(weight) - 1)], 1)
