"""Context scores of separable self-attention (MobileViTv2, arXiv:2206.02680)."""

import torch.nn.functional as F
from torch import Tensor

from mmeffvit.layers.attention import SeparableSelfAttention

from .grid import Canvas
from .reading import Reading


def read_separable(
    layer: SeparableSelfAttention, inputs: tuple[Tensor, ...], canvas: Canvas
) -> Reading:
    """Fold the P context scores ``softmax_n(W_i x)`` back to one map.

    Pixel p of patch n gets the score of patch n at position p: the P distributions interleave and
    are not added up, so the folded map sums to P.
    """
    (x,) = inputs
    patch = layer.patch_size
    own = layer.positions(x.shape[2] // patch, x.shape[3] // patch)
    folded = layer.scores(layer.qkv(x).narrow(1, 0, 1), own).sum(dim=1).view(x.shape[2:])
    scores = F.pixel_unshuffle(folded[None], patch)  # (P, rows, columns)
    return Reading(
        'separable', 'context scores', {'': folded}, {'scores': scores, 'folded': folded}
    )
