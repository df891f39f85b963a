"""Fold what is constant at inference into the adjacent convolutions."""

import copy

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fuse(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` for inference with fewer operations and equal outputs.

    Batch norms, layer scales and the affine parameters of group norms are folded into the adjacent
    convolutions, and the residual convolutions of SHViT and EfficientFormerV2 become plain ones. In
    necks and heads of mmdet and mmseg, every batch norm right after its convolution is folded too.
    Not folded are statistics of group norms, which depend on the input, and SwiftFormer's output
    norms, which follow a sum.

    Args:
        model: A backbone of ours, or a detector or segmentor of mmdet or mmseg with one.

    Returns:
        A new model in eval mode, for inference only; ``model`` is unchanged.
    """
    return _fuse(copy.deepcopy(model).eval())


def _fuse(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        setattr(module, name, _fuse(child))
    if hasattr(module, 'folded'):
        return module.folded()
    if is_conv_module(module):
        name = module.norm_name
        # a copy: levels may share a convolution, each with its own norm
        module.conv = fuse_conv_bn_eval(module.conv, getattr(module, name))
        setattr(module, name, nn.Identity())
    return module


def is_conv_module(module: nn.Module) -> bool:
    """Whether this is mmcv's ``ConvModule`` with a batch norm right after the convolution."""
    return (
        getattr(module, 'order', None) is not None
        and getattr(module, 'with_norm', False)
        and module.order.index('norm') == module.order.index('conv') + 1
        and type(module.conv).__name__ == 'Conv2d'  # subclasses normalize their weights
        and isinstance(getattr(module, module.norm_name), _BatchNorm)
    )
