"""Token mixers by name: layers on maps of queries, keys and values that replace each other."""

from collections.abc import Callable

from mmeffvit.models.layers.base_attention import Attention

from .ablations import (
    CastlingAttention,
    ControlVariateAttention,
    FlowAttention,
    GatedAttention,
    HeadLinearAttention,
    HeadSoftmaxAttention,
    HydraAttention,
    SqueezeExciteAttention,
    TokenLinearAttention,
    TokenSoftmaxAttention,
)
from .attention import MobileAttention

# of the channels of queries and of values, and the heads of the replaced attention
Mixer = Callable[[int, int, int], Attention]
MIXERS: dict[str, type[Attention]] = {
    'mobile': MobileAttention,
    'token_softmax': TokenSoftmaxAttention,
    'token_linear': TokenLinearAttention,
    'head_softmax': HeadSoftmaxAttention,
    'head_linear': HeadLinearAttention,
    'squeeze_excite': SqueezeExciteAttention,
    'gated': GatedAttention,
    'hydra': HydraAttention,
    'castling': CastlingAttention,
    'eva': ControlVariateAttention,
    'flow': FlowAttention,
}
