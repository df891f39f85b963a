"""Eager models at full speed on CPUs."""

import torch
from torch import Tensor, nn

from mmeffvit.layers.attention import TalkingHeadAttention
from mmeffvit.layers.packed_conv import ACTIVATIONS, PackedConv2d

from .fuse import fuse


def optimize_for_cpu(model: nn.Module) -> nn.Module:
    """Return a fused copy of ``model`` whose convolutions are steps of oneDNN.

    Activations and residual sums are computed inside the convolution before them, weights are laid
    out once per image size, and maps are channels-last. Outputs equal those of ``model`` within
    float32 rounding.

    Args:
        model: A backbone of ours, or a detector or segmentor of the hosts around one, in float32
            on the CPU.

    Returns:
        A new model for inference in float32 on CPUs; ``model`` is unchanged. It has no gradient
        and cannot be exported: give :func:`mmeffvit.deploy.fuse`'s to an exporter.

    Raises:
        ValueError: If a parameter is elsewhere than on the CPU or not in float32.
    """
    for name, parameter in model.named_parameters():
        if parameter.device.type != 'cpu' or parameter.dtype != torch.float32:
            raise ValueError(
                f'{name} is {parameter.dtype} on {parameter.device}; oneDNN packs float32 on the '
                'CPU: model.float().cpu()'
            )
    fused = fuse(model).requires_grad_(False)
    for module in fused.modules():
        if type(module).__name__ == 'RoIAlign':
            # mmcv's kernel for the CPU reads every map as if it were contiguous
            module.register_forward_pre_hook(contiguous_map)
    return pack(fused)


def pack(module: nn.Module) -> nn.Module:
    """Replace every plain convolution below, and the activation after it in a sequence."""
    if type(module) is nn.Conv2d and module.padding_mode == 'zeros' and module.padding != 'same':
        return PackedConv2d(module)
    if isinstance(module, TalkingHeadAttention):
        return module  # its convolutions mix the scores of heads: no maps, and best left in order
    for name, child in module.named_children():
        setattr(module, name, pack(child))
    if type(module) is nn.Sequential:
        merge_activations(module)
    elif is_activated_conv_module(module):
        module.conv.act = module.activate
        module.with_activation = False
    return module


def merge_activations(sequence: nn.Sequential) -> None:
    """Let every packed convolution compute the activation that follows it."""
    for (_, conv), (name, act) in zip(
        list(sequence.named_children()), list(sequence.named_children())[1:], strict=False
    ):
        if isinstance(conv, PackedConv2d) and is_supported(act):
            conv.act = act
            setattr(sequence, name, nn.Identity())


def is_supported(act: nn.Module | None) -> bool:
    return type(act) in ACTIVATIONS and getattr(act, 'approximate', 'none') == 'none'


def is_activated_conv_module(module: nn.Module) -> bool:
    """Whether this is the hosts' convolution, its norm folded, with an activation to merge."""
    return (
        getattr(module, 'order', None) == ('conv', 'norm', 'act')
        and isinstance(getattr(module, 'conv', None), PackedConv2d)
        and module.with_activation
        and is_supported(module.activate)
        and (not module.with_norm or isinstance(module.norm, nn.Identity))
    )


def contiguous_map(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return inputs[0].contiguous(), *inputs[1:]
