"""Fold what is constant at inference into the convolutions beside it."""

import copy

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fuse(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` for inference with fewer, larger steps and equal outputs.

    Convolution and batch norm become one convolution, layer scales and the factors of group norms
    go into the convolution beside them, and the residual forms of SHViT and EfficientFormerV2
    become one convolution. In the hosts' necks and heads, every batch norm right after its
    convolution is folded too. What stays: statistics of group norms, which depend on the input,
    and SwiftFormer's output norms, which follow a sum.

    Args:
        model: A backbone of ours, or a detector or segmentor of the hosts around one.

    Returns:
        A new model in eval mode, not meant for training; ``model`` is unchanged.
    """
    model = copy.deepcopy(model).eval()
    separate_shared_convs(model)
    return _fuse(model)


def separate_shared_convs(model: nn.Module) -> None:
    """Give each parent its own copy of a convolution that several share.

    Heads that share convolutions between levels keep a batch norm per level: each pair folds into
    other weights.
    """
    seen: set[nn.Module] = set()
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d):
                if child in seen:
                    setattr(parent, name, copy.deepcopy(child))
                seen.add(child)


def _fuse(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        setattr(module, name, _fuse(child))
    if hasattr(module, 'folded'):
        return module.folded()
    if is_conv_module(module):
        name = module.norm_name
        module.conv = fuse_conv_bn_eval(module.conv, getattr(module, name))
        setattr(module, name, nn.Identity())
    return module


def is_conv_module(module: nn.Module) -> bool:
    """Whether this is the hosts' convolution with a batch norm right after it."""
    return (
        getattr(module, 'order', None) is not None
        and getattr(module, 'with_norm', False)
        and module.order.index('norm') == module.order.index('conv') + 1
        and isinstance(module.conv, nn.Conv2d)
        and isinstance(getattr(module, module.norm_name), _BatchNorm)
    )
