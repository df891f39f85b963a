"""Efficient additive attention, the token mixer of SwiftFormer (arXiv:2303.15446)."""

import torch
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.folding import absorb_affine
from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.layers.reading import Locate, Reading


class EfficientAdditiveAttention(Attention):
    """Efficient additive attention, at linear cost through one global query: arXiv:2303.15446.

    ``y = W_f(W_p(g * k) + q)`` with ``q = |W_q x|``, ``k = |W_k x|``, ``a = |q . w|`` and ``g =
    sum_n(a_n q_n)``, n over the positions. ``|.|`` is the L2 norm: of q and k over the channels, of
    a over the positions. This follows the official code, which in contrast to equations 4 to 6 of
    the paper also normalizes a and k and has a last projection W_f. The code's factor ``C ** -0.5``
    on a is omitted: normalizing a cancels it.

    Args:
        channels: C, channels of the input and of the output.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query = nn.Conv2d(channels, channels, 1)
        self.key = nn.Conv2d(channels, channels, 1)
        self.score = nn.Conv2d(channels, 1, 1, bias=False)  # w, one score per position
        self.proj = nn.Conv2d(channels, channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def folded(self) -> 'EfficientAdditiveAttention':
        """Fold the bias of W_p into W_f's, which saves one addition per pixel."""
        absorb_affine(self.out, torch.ones_like(self.proj.bias), self.proj.bias)
        self.proj.bias = None
        return self

    def forward(self, x: Tensor) -> Tensor:
        query = unit_norm(self.query(x), dim=1)
        key = unit_norm(self.key(x), dim=1)
        return self.out(self.proj(self.pool(query, self.score(query)) * key) + query)

    def pool(self, x: Tensor, scores: Tensor) -> Tensor:
        """Sum over the positions, weighted by normalized scores (B, 1, H, W): (B, C, 1, 1)."""
        weights = unit_norm(scores, dim=(2, 3))
        return (x.flatten(2) @ weights.flatten(2).transpose(1, 2)).unsqueeze(3)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read a in ``g = sum_n(a_n q_n)``: signed, its squares sum to 1 over the positions."""
        (x,) = inputs
        scores = self.score(unit_norm(self.query(x), dim=1))
        weights = unit_norm(scores, dim=(2, 3))[0, 0]
        return Reading('additive', 'global-query weights', {'': weights}, {'weights': weights})
