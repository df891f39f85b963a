"""Attention layers on feature maps (B, C, H, W), one file per mechanism."""

from .additive import EfficientAdditiveAttention
from .bottleneck import BottleneckAttention
from .castling import CastlingAttention
from .control_variates import ControlVariateAttention
from .flow import FlowAttention
from .gated import GatedAttention
from .head_attention import HeadLinearAttention, HeadSoftmaxAttention
from .hydra import HydraAttention
from .key_value_additive import KeyValueAdditiveAttention
from .latents import LatentSelfAttention
from .linformer import LinformerAttention
from .local_global import DownsamplingAttention, LocalGlobalAttention, TalkingHeadsAttention
from .mixers import MIXERS, MOBILE_ATTENTION, choose, make_mixer
from .mobile import MobileAttention
from .multi_head import MultiHeadAttention
from .partial_multi_head import PartialMultiHeadAttention
from .sampled import SampledSelfAttention
from .self_attention import SelfAttention
from .separable import KeylessSeparableSelfAttention, SeparableSelfAttention
from .single_head import SingleHeadSelfAttention
from .spatial_reduction import SpatialReductionAttention
from .squeeze_excite import SqueezeExciteAttention
from .token_linear import TokenLinearAttention
from .token_softmax import TokenSoftmaxAttention
from .transpose import CrossCovarianceAttention, TransposeAttention

__all__ = [
    'MIXERS',
    'MOBILE_ATTENTION',
    'BottleneckAttention',
    'CastlingAttention',
    'ControlVariateAttention',
    'CrossCovarianceAttention',
    'DownsamplingAttention',
    'EfficientAdditiveAttention',
    'FlowAttention',
    'GatedAttention',
    'HeadLinearAttention',
    'HeadSoftmaxAttention',
    'HydraAttention',
    'KeyValueAdditiveAttention',
    'KeylessSeparableSelfAttention',
    'LatentSelfAttention',
    'LinformerAttention',
    'LocalGlobalAttention',
    'MobileAttention',
    'MultiHeadAttention',
    'PartialMultiHeadAttention',
    'SampledSelfAttention',
    'SelfAttention',
    'SeparableSelfAttention',
    'SingleHeadSelfAttention',
    'SpatialReductionAttention',
    'SqueezeExciteAttention',
    'TalkingHeadsAttention',
    'TokenLinearAttention',
    'TokenSoftmaxAttention',
    'TransposeAttention',
    'choose',
    'make_mixer',
]
