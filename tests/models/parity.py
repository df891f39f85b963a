"""Comparison of a backbone with its peer in timm on the same weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from mmeffvit.models import Backbone

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
    ours: Backbone, theirs: nn.Module, x: Tensor, indices: Sequence[int] | None = None
) -> None:
    """The maps of an image equal those of timm's blocks, by default all of its stages."""
    with torch.no_grad():
        expected = theirs.forward_intermediates(x, indices=indices, intermediates_only=True)
        for feature, other in zip(ours(x), expected, strict=True):
            error = (feature - other).abs().max() / other.abs().max()
            assert error <= TOLERANCE, (x.shape, error)
