"""Attention layers on feature maps (B, C, H, W), one file per mechanism."""

from .additive import EfficientAdditiveAttention
from .control_variates import ControlVariateAttention
from .flow import FlowAttention
from .gated import GatedAttention
from .hydra import HydraAttention
from .key_value_additive import KeyValueAdditiveAttention
from .latents import LatentSelfAttention
from .linear import LinearAttention
from .linformer import LinformerAttention
from .local_global import DownsamplingAttention, LocalGlobalAttention, TalkingHeadsAttention
from .mixers import MIXERS, MOBILE_ATTENTION, choose, make_mixer
from .mobile import MobileAttention
from .multi_head import MultiHeadAttention
from .partial_multi_head import PartialMultiHeadAttention
from .self_attention import SelfAttention
from .separable import KeylessSeparableSelfAttention, SeparableSelfAttention
from .single_head import SingleHeadSelfAttention
from .softmax import SoftmaxAttention
from .spatial_reduction import SpatialReductionAttention
from .squeeze_excite import SqueezeExciteAttention
from .transpose import TransposeAttention

__all__ = [
    'MIXERS',
    'MOBILE_ATTENTION',
    'ControlVariateAttention',
    'DownsamplingAttention',
    'EfficientAdditiveAttention',
    'FlowAttention',
    'GatedAttention',
    'HydraAttention',
    'KeyValueAdditiveAttention',
    'KeylessSeparableSelfAttention',
    'LatentSelfAttention',
    'LinearAttention',
    'LinformerAttention',
    'LocalGlobalAttention',
    'MobileAttention',
    'MultiHeadAttention',
    'PartialMultiHeadAttention',
    'SelfAttention',
    'SeparableSelfAttention',
    'SingleHeadSelfAttention',
    'SoftmaxAttention',
    'SpatialReductionAttention',
    'SqueezeExciteAttention',
    'TalkingHeadsAttention',
    'TransposeAttention',
    'choose',
    'make_mixer',
]
