"""Multi-scale deformable attention of arXiv:2010.04159, as mmcv's function in plain PyTorch."""

import torch
from torch import Tensor

from .backend import in_float32


def ms_deform_attn_forward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_loc: Tensor,
    attn_weight: Tensor,
    im2col_step: int,
) -> Tensor:
    """Return weighted sums of bilinear samples of all levels.

    Values have the K tokens of L levels, one after the other, with D channels for each of M heads.
    Samples are normalized coordinates (x, y), P per level. ``level_start_index`` and
    ``im2col_step`` are not used.

    Shape:
        (B, K, M, D), (L, 2), (L,), (B, Q, M, L, P, 2), (B, Q, M, L, P) -> (B, Q, M * D)
    """
    return attend(value, spatial_shapes, sampling_loc, attn_weight).to(value.dtype)


def ms_deform_attn_backward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_loc: Tensor,
    attn_weight: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """Write the gradients of :func:`ms_deform_attn_forward`, which is recomputed."""
    inputs = [in_float32(x).detach().requires_grad_() for x in (value, sampling_loc, attn_weight)]
    with torch.enable_grad():
        attended = attend(inputs[0], spatial_shapes, *inputs[1:])
    grads = torch.autograd.grad(attended, inputs, in_float32(grad_output))
    for target, grad in zip((grad_value, grad_sampling_loc, grad_attn_weight), grads, strict=True):
        target.copy_(grad)


def attend(value: Tensor, shapes: Tensor, location: Tensor, weight: Tensor) -> Tensor:
    """The weighted sums in float32."""
    # mmcv.ops is being imported when this file is
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    return multi_scale_deformable_attn_pytorch(
        in_float32(value), shapes, in_float32(location), in_float32(weight)
    )
