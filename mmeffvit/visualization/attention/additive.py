"""Weights of the global query of efficient additive attention (SwiftFormer, arXiv:2303.15446)."""

from torch import Tensor

from mmeffvit.layers.attention import EfficientAdditiveAttention
from mmeffvit.layers.attention.additive import unit_norm

from .grid import Canvas
from .reading import Reading


def read_additive(
    layer: EfficientAdditiveAttention, inputs: tuple[Tensor, ...], canvas: Canvas
) -> Reading:
    """Read a of ``g = sum_n(a_n q_n)``: signed, its squares sum to 1 over the positions."""
    (x,) = inputs
    scores = layer.score(unit_norm(layer.query(x), dim=1))
    weights = unit_norm(scores, dim=(2, 3))[0, 0]
    return Reading('additive', 'global-query weights', {'': weights}, {'weights': weights})
