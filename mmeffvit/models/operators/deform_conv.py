"""Deformable convolutions of arXiv:1703.06211 and, with a mask, of arXiv:1811.11168.

On a CPU, plain PyTorch takes a fifth of the time of torchvision's operator.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import has_torchvision, in_float32

# stride, padding and dilation of a convolution, each as (vertical, horizontal)
Geometry = tuple[tuple[int, int], ...]
# the names of these options in mmcv, without and with a mask
Names = tuple[tuple[str, str], ...]
V1 = (('dH', 'dW'), ('padH', 'padW'), ('dilationH', 'dilationW'))
V2 = (('stride_h', 'stride_w'), ('pad_h', 'pad_w'), ('dilation_h', 'dilation_w'))


def deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    output: Tensor,
    columns: Tensor,
    ones: Tensor,
    **options: int,
) -> None:
    """Convolve pixels that are displaced by offsets, and write the result into ``output``.

    Offsets are displacements (y, x) of K positions of the kernel, for D groups of channels.
    ``columns`` and ``ones`` are not used. The options are stride, padding, dilation and numbers of
    groups.

    Shape:
        (B, C, H, W), (O, C / groups, h, w), (B, D * K * 2, H', W') -> (B, O, H', W')
    """
    output.copy_(convolve(input, weight, offset, None, None, geometry_of(V1, options)))


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    weight: Tensor,
    columns: Tensor,
    **options: int,
) -> None:
    """Write the gradients of maps and offsets; see :func:`deform_conv_forward`.

    ``columns`` keeps the gradient of the kernels, which comes with them.
    """
    inputs = (input, weight, offset, None, None)
    grads = gradients(inputs, grad_output, geometry_of(V1, options))
    grad_input.copy_(grads[0])
    columns.resize_(weight.shape).copy_(grads[1])
    grad_offset.copy_(grads[2])


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_weight: Tensor,
    columns: Tensor,
    ones: Tensor,
    **options: int,
) -> None:
    """Write the gradient of the kernels; see :func:`deform_conv_forward`."""
    if columns.shape == grad_weight.shape:
        grad_weight.copy_(columns)
        return
    inputs = (input, torch.zeros_like(grad_weight), offset, None, None)
    grad_weight.copy_(gradients(inputs, grad_output, geometry_of(V1, options))[1])


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    **options: int,
) -> None:
    """Convolve as :func:`deform_conv_forward`, with a factor per displaced pixel, the mask.

    The bias is read if the option ``with_bias`` is set.

    Shape:
        (B, C, H, W), (O, C / groups, h, w), (O,), (B, D * K * 2, H', W'), (B, D * K, H', W')
        -> (B, O, H', W')
    """
    bias = bias if options['with_bias'] else None
    output.copy_(convolve(input, weight, offset, mask, bias, geometry_of(V2, options)))


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    **options: int,
) -> None:
    """Write the gradients of :func:`modulated_deform_conv_forward`."""
    bias = bias if options['with_bias'] else None
    inputs = (input, weight, offset, mask, bias)
    grads = gradients(inputs, grad_output, geometry_of(V2, options))
    targets = (grad_input, grad_weight, grad_offset, grad_mask, grad_bias)
    for target, grad in zip(targets, grads, strict=True):
        if grad is not None:
            target.copy_(grad)


def geometry_of(names: Names, options: dict[str, int]) -> Geometry:
    return tuple((options[vertical], options[horizontal]) for vertical, horizontal in names)


def gradients(
    inputs: tuple[Tensor | None, ...], grad_output: Tensor, geometry: Geometry
) -> list[Tensor | None]:
    """Return the gradient of each input of :func:`convolve`, which is recomputed."""
    leaves = [None if x is None else in_float32(x).detach().requires_grad_() for x in inputs]
    with torch.enable_grad():
        output = convolve(*leaves, geometry)
    found = [leaf for leaf in leaves if leaf is not None]
    grads = iter(torch.autograd.grad(output, found, grad_output.to(output.dtype)))
    return [None if leaf is None else next(grads) for leaf in leaves]


def convolve(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    geometry: Geometry,
) -> Tensor:
    """Return a deformable convolution in float32."""
    inputs = (input, weight, offset, mask, bias)
    input, weight, offset, mask, bias = (None if x is None else in_float32(x) for x in inputs)
    size = size_after(input, weight, geometry)
    if offset.shape[2:] != size:
        offset, mask = (None if x is None else first_elements(x, size) for x in (offset, mask))
    with torch.autocast(input.device.type, enabled=False):
        if has_torchvision(input) and input.device.type != 'cpu':
            from torchvision.ops import deform_conv2d

            return deform_conv2d(input, offset, weight, bias, *geometry, mask)
        columns = sample(input, weight, offset, mask, geometry)
        output = weight.reshape(columns.shape[1], -1, columns.shape[2]) @ columns
        output = output.reshape(len(input), len(weight), *offset.shape[2:])
        return output if bias is None else output + bias[:, None, None]


def size_after(input: Tensor, weight: Tensor, geometry: Geometry) -> torch.Size:
    """Return the height and width of the output."""
    sides = zip(input.shape[2:], weight.shape[2:], *geometry, strict=True)
    return torch.Size(
        (side + 2 * padding - dilation * (length - 1) - 1) // stride + 1
        for side, length, stride, padding, dilation in sides
    )


def first_elements(maps: Tensor, size: torch.Size) -> Tensor:
    """Return the first elements of larger maps, in a smaller size.

    mmdet's DyHead gives offsets of a finer level (mmdetection issue 11146), of which mmcv's
    compiled operator reads these.

    Shape:
        (B, C, H, W) -> (B, C, H', W')
    """
    count = maps.shape[1] * size.numel()
    return maps.flatten(1)[:, :count].view(len(maps), -1, *size)


def sample(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, geometry: Geometry
) -> Tensor:
    """Return all displaced pixels: (B, groups, C / groups * K, H' * W')."""
    batch, channels = input.shape[:2]
    kernel, size = weight.shape[2:], offset.shape[2:]
    num_taps = kernel.numel()
    offset = offset.view(batch, -1, num_taps, 2, *size)
    position = offset + taps(kernel, size, geometry).to(offset)  # (B, D, K, 2, H', W')
    columns = bilinear(input, *position.unbind(dim=3))  # (B, D, C / D, K, H', W')
    if mask is not None:
        columns = columns * mask.view(batch, -1, 1, num_taps, *size)
    groups = channels // weight.shape[1]
    return columns.reshape(batch, groups, weight.shape[1] * num_taps, size.numel())


def taps(kernel: torch.Size, size: torch.Size, geometry: Geometry) -> Tensor:
    """Return the undisplaced positions (y, x) in the input.

    Shape:
        (K, 2, H', W')
    """
    axes = []
    for length, steps, stride, padding, dilation in zip(kernel, size, *geometry, strict=True):
        start = torch.arange(steps) * stride - padding
        axes.append(start + torch.arange(length)[:, None] * dilation)
    y = axes[0][:, None, :, None].expand(*kernel, *size)
    x = axes[1][None, :, None, :].expand(*kernel, *size)
    return torch.stack([y, x], dim=2).flatten(0, 1)


def bilinear(maps: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Interpolate the pixels of D groups of channels; there are zeros around the maps.

    Shape:
        (B, C, H, W), (B, D, K, H', W'), (B, D, K, H', W') -> (B, D, C / D, K, H', W')
    """
    batch, groups = y.shape[:2]
    height, width = maps.shape[2:]
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], dim=-1)
    grid = grid.flatten(0, 1).flatten(1, 2)  # (B * D, K * H', W', 2)
    groups_of_maps = maps.unflatten(1, (groups, -1)).flatten(0, 1)
    sampled = F.grid_sample(groups_of_maps, grid, align_corners=False)
    return sampled.view(batch, groups, -1, *y.shape[2:])
