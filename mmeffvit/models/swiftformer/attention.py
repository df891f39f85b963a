"""Efficient additive attention, the token mixer of SwiftFormer (arXiv:2303.15446)."""

from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.layers.reading import Locate, Reading

FORMS = ('code', 'paper')


class EfficientAdditiveAttention(Attention):
    """Efficient additive attention, at linear cost through one global query: arXiv:2303.15446.

    ``y = W_f(W_p(g * k) + q)`` with ``q = |W_q x|``, ``k = |W_k x|``, ``a = |q . w|`` and ``g =
    sum_n(a_n q_n)``, n over the positions. ``|.|`` is the L2 norm: of q and k over the channels, of
    a over the positions. This follows the official code. Its factor ``C ** -0.5`` on a is omitted:
    normalizing a cancels it.

    Equations 4 to 6 of the paper are ``y = W_p(g * k) + |q|`` with ``q = W_q x``, ``k = W_k x``,
    ``a = q . w / sqrt(C)`` and ``g = sum_n(a_n q_n)``, which grows with the number of positions.

    Args:
        channels: C, channels of the input and of the output.
        form: 'code', or 'paper' for its equations.

    Shape:
        (B, C, H, W) -> (B, C, H, W).

    Raises:
        ValueError: If ``form`` is unknown.
    """

    def __init__(self, channels: int, *, form: str = 'code') -> None:
        super().__init__()
        if form not in FORMS:
            raise ValueError(f'form is {form!r}; choose one of {FORMS}')
        self.form = form
        self.query = nn.Conv2d(channels, channels, 1)
        self.key = nn.Conv2d(channels, channels, 1)
        self.score = nn.Conv2d(channels, 1, 1, bias=False)  # w, one score per position
        self.proj = nn.Conv2d(channels, channels, 1)
        self.out = nn.Conv2d(channels, channels, 1) if form == 'code' else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.query(x), self.key(x)
        normalized = unit_norm(query, dim=1)
        if self.form == 'code':
            query, key = normalized, unit_norm(key, dim=1)
        return self.out(self.proj(self.pool(query, self.score(query)) * key) + normalized)

    def weigh(self, scores: Tensor) -> Tensor:
        """Weights of the positions, from scores (B, 1, H, W)."""
        if self.form == 'paper':
            return scores * self.score.in_channels**-0.5
        return unit_norm(scores, dim=(2, 3))

    def pool(self, x: Tensor, scores: Tensor) -> Tensor:
        """Sum over the positions, weighted by a of the scores (B, 1, H, W): (B, C, 1, 1)."""
        weights = self.weigh(scores)
        return (x.flatten(2) @ weights.flatten(2).transpose(1, 2)).unsqueeze(3)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read a in ``g = sum_n(a_n q_n)``: signed; in code, its squares sum to 1."""
        query = self.query(inputs[0])
        query = unit_norm(query, dim=1) if self.form == 'code' else query
        weights = self.weigh(self.score(query))[0, 0]
        return Reading('additive', 'global-query weights', {'': weights}, {'weights': weights})
