"""Layer scale and stochastic depth of residual branches."""

import torch
from torch import Tensor, nn

from .folding import scale_output


class LayerScale(nn.Module):
    """Add a residual branch with a learned factor per channel: arXiv:2103.17239.

    ``y = x + scale * branch``

    Shape:
        x (B, C, H, W), branch (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, init: float = 1e-5) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels, 1, 1), init))

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        return torch.addcmul(x, branch, self.scale)

    def fold_into(self, conv: nn.Conv2d) -> 'ResidualSum':
        """Fold the scale into ``conv``; returns the module that replaces this one."""
        scale_output(conv, self.scale)
        return ResidualSum()


class ResidualSum(nn.Module):
    """``y = x + branch``: a :class:`LayerScale` whose scale is folded into the branch."""

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch


class DropPath(nn.Module):
    """Drop a residual branch per sample while training: stochastic depth, arXiv:1603.09382.

    The kept samples are divided by ``1 - drop_prob``, so the expected value does not change.

    Args:
        drop_prob: Probability of dropping the branch of one sample, in [0, 1).

    Shape:
        (B, ...) -> (B, ...).
    """

    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        if not 0 <= drop_prob < 1:
            raise ValueError(f'drop_prob is {drop_prob}; it must be in [0, 1)')
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.drop_prob == 0:
            return x
        keep_prob = 1 - self.drop_prob
        kept = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep_prob)
        return x * kept / keep_prob

    def extra_repr(self) -> str:
        return f'drop_prob={self.drop_prob:.3f}'
