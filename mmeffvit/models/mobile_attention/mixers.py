"""Token mixers by name: layers on maps of queries, keys and values that replace each other."""

from collections.abc import Callable

from mmeffvit.models.layers.base_attention import Attention

from . import ablations
from .attention import MobileAttention

# of the channels of queries and of values, and the heads of the replaced attention
Mixer = Callable[[int, int, int], Attention]
MIXERS: dict[str, type[Attention]] = {
    'mobile': MobileAttention,
    'token_softmax': ablations.TokenSoftmaxAttention,
    'token_linear': ablations.TokenLinearAttention,
    'head_softmax': ablations.HeadSoftmaxAttention,
    'head_linear': ablations.HeadLinearAttention,
    'squeeze_excite': ablations.SqueezeExciteAttention,
    'gated': ablations.GatedAttention,
    'hydra': ablations.HydraAttention,
    'castling': ablations.CastlingAttention,
    'eva': ablations.ControlVariateAttention,
    'flow': ablations.FlowAttention,
}
