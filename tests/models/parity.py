"""Comparison of a backbone with its peer in timm on the same weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from mmeffvit.models import Backbone

SIZES = ((224, 224), (97, 161), (128, 192))
GRADIENT_SIZE = (96, 160)
TOLERANCE = 1e-4  # relative to the largest value, in float32


def randomized(model: nn.Module) -> nn.Module:
    """Random weights and statistics everywhere: a wrong key or a skipped branch shows."""
    for name, buffer in model.named_buffers():
        if name.endswith('running_mean'):
            buffer.normal_(0, 0.1)
        elif name.endswith('running_var'):
            buffer.uniform_(0.5, 1.5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # layer scales start near zero, some batch norms at zero: their branches would be hidden
            if 'gamma' in name or name.endswith('bn.weight'):
                parameter.uniform_(0.5, 1.5)
            elif name.endswith(('bias', 'biases')):
                parameter.normal_(0, 0.1)
    return model.eval()


def load_from(ours: Backbone, theirs: nn.Module, folder: Path) -> Backbone:
    torch.save(theirs.state_dict(), folder / 'timm.pth')
    ours.load_pretrained(folder / 'timm.pth')
    return ours.eval()


def assert_same_maps(
    ours: Backbone, theirs: nn.Module, folder: Path, sizes: Sequence[tuple[int, int]] = SIZES
) -> None:
    load_from(ours, theirs, folder)
    for size in sizes:
        x = torch.randn(1, 3, *size)
        with torch.no_grad():
            expected = theirs.forward_intermediates(x, intermediates_only=True)
            maps = ours(x)
        for feature, other in zip(maps, expected, strict=True):
            error = (feature - other).abs().max() / other.abs().max()
            assert error <= TOLERANCE, (size, error)


def assert_same_gradients(ours: Backbone, theirs: nn.Module, folder: Path) -> None:
    """Gradients of a scalar of all maps, with respect to the image and all parameters.

    In float64: in the gradient of SwiftFormer's scores larger terms cancel, so that
    timm's own float32 value is off by more than the tolerance of the maps.
    """
    tolerance = 1e-9
    ours, theirs = ours.double(), theirs.double()
    load_from(ours, theirs, folder)
    x = torch.randn(1, 3, *GRADIENT_SIZE, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    sum(m.tanh().sum() for m in theirs.forward_intermediates(x, intermediates_only=True)).backward()
    sum(m.tanh().sum() for m in ours(y)).backward()
    assert (x.grad - y.grad).abs().max() <= tolerance * x.grad.abs().max()
    # convert their gradients like weights, with the same key table, and compare
    expected = {k: v.grad for k, v in theirs.named_parameters() if v.grad is not None}
    gradients = {name: parameter.grad.clone() for name, parameter in ours.named_parameters()}
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name in expected:
                parameter.copy_(expected[name])
    load_from(ours, theirs, folder)
    # softmax is invariant to a bias of the keys: its gradient is rounding error
    noise = 1e-6 * max(p.abs().max() for p in ours.parameters())
    for name, parameter in ours.named_parameters():
        largest = max(parameter.abs().max(), noise)
        assert (gradients[name] - parameter).abs().max() <= tolerance * largest, name
