"""Folding of scales and norms into the adjacent convolution, for inference.

The method ``folded`` of a module returns its replacement. :func:`mmeffvit.deploy.fuse` calls it in
a copy in eval mode, after its children's.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@torch.no_grad()
def scale_output(conv: nn.Conv2d, factor: Tensor) -> None:
    """Multiply the output channels of ``conv`` by ``factor``, one value per channel."""
    conv.weight.mul_(factor.view(-1, 1, 1, 1))
    if conv.bias is not None:
        conv.bias.mul_(factor.view(-1))


@torch.no_grad()
def absorb_affine(conv: nn.Conv2d, factor: Tensor, shift: Tensor) -> None:
    """Fold ``factor * x + shift``, per input channel, into the dense 1x1 ``conv`` after it."""
    offset = conv.weight.flatten(1) @ shift
    bias = offset if conv.bias is None else conv.bias + offset
    conv.bias = nn.Parameter(bias, requires_grad=False)
    conv.weight.mul_(factor.view(1, -1, 1, 1))


def absorb_batch_norm(norm: _BatchNorm, conv: nn.Conv2d) -> nn.Identity:
    """Fold a batch norm into the 1x1 convolution after it; returns its replacement."""
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    absorb_affine(conv, factor.detach(), (norm.bias - norm.running_mean * factor).detach())
    return nn.Identity()


def absorb_group_norm(norm: nn.GroupNorm, conv: nn.Conv2d) -> nn.GroupNorm:
    """Fold the affine parameters of a group norm into the 1x1 convolution after it."""
    absorb_affine(conv, norm.weight.detach(), norm.bias.detach())
    return nn.GroupNorm(norm.num_groups, norm.num_channels, norm.eps, affine=False)


@torch.no_grad()
def add_identity(conv: nn.Conv2d) -> nn.Conv2d:
    """Return the depth-wise ``conv`` plus the (strided) identity, as one plain convolution."""
    fused = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        stride=conv.stride,
        padding=conv.padding,
        dilation=conv.dilation,
        groups=conv.groups,
        bias=conv.bias is not None,
    ).to(conv.weight)
    fused.load_state_dict(conv.state_dict())
    center = tuple(side // 2 for side in conv.kernel_size)
    fused.weight[:, 0, center[0], center[1]] += 1
    return fused
