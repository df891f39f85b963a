"""Arguments and inputs that a backbone, a layer or a neck rejects are named with the choices.

Those that all backbones share are in test_contract.py.
"""

from functools import partial

import pytest
import torch

from mmeffvit.models import DeiT, EfficientFormerV2, MobileViTv2, PVTv2, SHViT, SwiftFormer
from mmeffvit.models.deit.attention import MultiHeadAttention
from mmeffvit.models.detection import SSDLiteAnchorGenerator, SSDLiteNeck
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.choice import choose
from mmeffvit.models.layers.regularization import DropPath
from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.mobile_attention.mixers import MIXERS
from mmeffvit.models.mobilevitv2.ablations import (
    LatentSelfAttention,
    LinformerAttention,
    SampledSelfAttention,
)
from mmeffvit.models.necks import LightPAN, SimpleFeaturePyramid, TransposedFPN
from mmeffvit.models.pvtv2.attention import SpatialReductionAttention
from mmeffvit.models.shvit.ablations import PartialMultiHeadAttention
from mmeffvit.models.swiftformer.ablations import TransposeAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention

MAP, MAPS_OF_12 = torch.zeros(1, 8, 4, 4), torch.zeros(1, 12, 2, 2)


def mixer(name: str, channels: int = 12, value_channels: int = 12, **own: object) -> Attention:
    return choose(dict(type=name, **own), MIXERS)(channels, value_channels, 3)


def mobile(**form: object) -> None:
    MobileAttention(8, 8, 2, form={'type': 'code', **form})


four = dict.fromkeys(('depths', 'expansions'), (1,) * 4)
deit = partial(dict, channels=16, heads=2, depths=(1,) * 4)
shvit = partial(dict, channels=(16, 24, 32), depths=(1, 1, 1), attended=(0, 8, 8))
efv2 = partial(dict, channels=(8,) * 4, depths=(1, 1, 2, 2), attended=(1, 1), narrow=((), ()))

# fmt: off
CASES = [
    (DeiT, dict(class_tokens=3), 'class_tokens is 3; choose 0, 1 or 2'),
    (DeiT, dict(attention=dict(type='mobile', head_channels=5)), '5; choose a divisor of 192'),
    (DeiT, dict(attention='eva'), 'windows on a map: choose class_tokens=0'),
    (DeiT, dict(output='tokens'), "output is 'tokens'; choose one of"),
    (DeiT, dict(output='class_tokens', class_tokens=0), 'but class_tokens is 0'),
    (DeiT, dict(resolution=0), r'resolution is \(0, 0\)'),
    (DeiT, dict(arch=deit(heads=3)), 'divisible by the heads'),
    (DeiT, dict(arch=deit(depths=(1, 1, 1))), '4 depths'),
    (EfficientFormerV2, dict(downsampling='flow'), "downsampling is 'flow'; choose one of"),
    (EfficientFormerV2, dict(downsampling=dict(type='mobile', head_channels=256)), 'divisor of 12'),
    (EfficientFormerV2, dict(attention=dict(window=3)), r"\{'window': 3\}; choose one of"),
    (EfficientFormerV2, dict(resolution=0), r'resolution is \(0, 0\)'),
    (EfficientFormerV2, dict(arch=efv2(attended=(3, 0))), 'between 0 and the depth of its stage'),
    (EfficientFormerV2, dict(arch=efv2(depths=(1, 1, 2))), '4 stages'),
    (EfficientFormerV2, dict(output_stride=12), r'12; choose one of \[32, 16, 8\]'),
    (EfficientFormerV2, dict(output_stride=8), "8: .*, or attention='mobile' and downsampling='mo"),
    (EfficientFormerV2, dict(output_stride=8, attention='mobile'), "8: .*, or downsampling='mobil"),
    (EfficientFormerV2, dict(output_stride=16, resize_matrix=True), '16 and .* resize_matrix=Fals'),
    (SHViT, dict(attention='none', partial_ratio=0.5), "attention='none' does not use it"),
    (SHViT, dict(partial_ratio=0), 'partial_ratio is 0; choose a number above 0 and at most 1'),
    (SHViT, dict(partial_ratio=1.5), 'partial_ratio is 1.5'),
    (SHViT, dict(arch=shvit(depths=(1, 1))), '3 stages'),
    (SHViT, dict(arch=shvit(attended=(0, 8, 33))), 'attended must be between 0 and channels'),
    (SHViT, dict(arch=shvit(channels=(20, 24, 32))), r'channels\[0\] is divisible by 8'),
    (SHViT, dict(output_stride=8), r'8; choose one of \[64, 32, 16\]'),
    (SHViT, dict(arch=dict(type='s1', depths=3)), r'depths 3; give it like \(2, 4, 5\)'),
    (SHViT, dict(out_indices=2), r'out_indices is 2; give a sequence, such as \(2,\)'),
    (SwiftFormer, dict(attention=['self']), r"attention is \['self'\]; choose one of"),
    (SwiftFormer, dict(attention=dict(type='self', patch_size=2)), 'patch_size is 2; choose 1'),
    (SwiftFormer, dict(output_stride=4), r'4; choose one of \[32, 16, 8\]'),
    (MobileViTv2, dict(arch=0), 'arch is 0; .* above 0'),
    (MobileViTv2, dict(arch=float('nan')), 'arch is nan; .* above 0'),
    (MobileViTv2, dict(odd_size='crop'), r"'crop'; choose one of \('official', 'restore'\)"),
    (PVTv2, dict(mobile_stages=(4,)), r'mobile_stages is \(4,\); choose from 0 to 3'),
    (PVTv2, dict(attention='flow'), "attention is 'flow', but mobile_stages is empty"),
    (PVTv2, dict(arch=dict(four, channels=(8, 8, 8, 8))), 'divisible by'),
    (PVTv2, dict(arch=dict(four, channels=(8, 8, 8))), '4 stages'),
    (PVTv2, dict(arch=dict(four, channels=(8, 8, 20, 16), depths=(0,) * 4)), 'positive'),
    (mobile, dict(kernel='relu'), r"'relu'; choose one of \('sigmoid', 'cosine_sigmoid'\)"),
    (mobile, dict(normalizer='row'), r"'row'; choose one of \('token', 'head'\)"),
    (mobile, dict(softmax_over='rows'), r"'rows'; choose one of \('tokens', 'heads'\)"),
    (mobile, dict(epsilon=-1), 'epsilon is -1; it must be at least 0'),
    (mobile, dict(decay=1), 'change only'),
    (mobile, dict(type='file'), "form is 'file'; choose one of 'default', 'code', 'paper'"),
    (mixer, dict(name='eva', window=0), 'window is 0 and chunks is 7; both must be at least 1'),
    (mixer, dict(name='squeeze_excite', reduction=0), 'reduction is 0; it must be at least 1'),
    (mixer, dict(name='gated', unit='map'), r"unit is 'map'; choose one of \('channel', 'head'\)"),
    *((mixer, dict(name=name, head_channels=0), 'head_channels is 0; it must be at least 1')
      for name in MIXERS if name != 'hydra'),
    *((mixer, dict(name=name, head_channels=24), 'head_channels is 24; choose a divisor of 12')
      for name in MIXERS if name != 'hydra'),
    (mixer, dict(name='mobile', value_channels=13), 'divisor of 12 .* and 13 of values'),
    *((mixer(name), dict(query=MAPS_OF_12, key=MAPS_OF_12, value=torch.zeros(1, 13, 2, 2)),
       'queries of 12 and values of 13 channels') for name in MIXERS),
    (SelfAttention, dict(channels=10, num_heads=4), '10 channels are not divisible into 4 heads'),
    (TransposeAttention, dict(channels=8, num_heads=0), '8 channels are not .* into 0 heads'),
    (TransposeAttention, dict(channels=8, softmax_over='rows'), r"one of \('keys', 'queries'\)"),
    (MultiHeadAttention, dict(channels=16, num_heads=3), '16 channels are not divisible into 3'),
    (SpatialReductionAttention, dict(channels=16, num_heads=3), '16 channels are not divisible'),
    (PartialMultiHeadAttention, dict(channels=14, attended=6, num_heads=4), '6 channels are not'),
    (SampledSelfAttention, dict(channels=8, sampling='row'), "sampling is 'row'; choose one of"),
    (SampledSelfAttention, dict(channels=8, pixels=5), 'pixels is 5; choose 1 to 4'),
    (SampledSelfAttention, dict(channels=8, patches=0), 'patches is 0; choose a ratio above 0'),
    (LatentSelfAttention, dict(channels=8, num_latents=0), 'num_latents is 0; it must be at least'),
    (LinformerAttention, dict(channels=8, projected=0), r'projected is 0 and grid is \(16, 16\)'),
    (EfficientAdditiveAttention, dict(channels=12, form='default'), "'default'; choose one of"),
    (SwiftFormer, dict(arch='xs', drop_path_rate=1.5), r'drop_path_rate is 1\.5; it must be in'),
    (MobileViTv2, dict(arch=50), 'arch is 50; .* at most 10.0, such as 0.5 for the variant 050'),
    (MobileViTv2, dict(attention=dict(type='separable', patch_size=4)), 'patch_size is 4; choose'),
    (DropPath, dict(drop_prob=-0.1), '-0.1'),
    (DropPath, dict(drop_prob=1.0), '1.0'),
    (LightPAN, dict(in_channels=()), 'one map or more'),
    (LightPAN, dict(in_channels=(8,), out_channels=6, finer=True), '6; .* is a multiple of 4'),
    (LightPAN((8, 8)), dict(maps=[MAP]), 'got 1 feature maps; in_channels has 2'),
    (SimpleFeaturePyramid, dict(in_channels=[8, 8]), 'channels of one map, and 4 levels or more'),
    (SimpleFeaturePyramid, dict(in_channels=[8], num_outs=3), 'one map, and 4 levels or more'),
    (SimpleFeaturePyramid([8]), dict(maps=[MAP] * 2), r'2 feature maps; .*out_indices=\(3,\)'),
    (TransposedFPN, dict(in_channels=(8,), num_finer=-1), 'num_finer -1'),
    (TransposedFPN((8, 8, 8), 4), dict(maps=[MAP] * 2), 'got 2 feature maps; in_channels has 3'),
    (SSDLiteNeck, dict(in_channels=[]), 'one map or more'),
    (SSDLiteNeck([8, 12]), dict(maps=[MAP]), 'got 1 feature maps'),
    *((SSDLiteAnchorGenerator, dict(ratios=ratios, size_range=sizes), 'must be positive')
      for ratios, sizes in (((), (0.1, 1)), (((2, -3),), (0.1, 1)), (((2,),), (0, 1)))),
]
# fmt: on


@pytest.mark.parametrize(('call', 'options', 'named'), CASES)
def test_what_cannot_be_is_named_with_the_choices(call, options, named):
    with pytest.raises(ValueError, match=named):
        call(**options)
