"""Parameters and MACs of every variant, as counted from the official code."""

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.models.declared import DECLARED
from tests.variants import sampled

SWIFTFORMER = dict(type='mmeffvit.SwiftFormer', output_norm=False)
SHVIT = dict(type='mmeffvit.SHViT')
MOBILEVITV2 = dict(type='mmeffvit.MobileViTv2')
EFFICIENTFORMERV2 = dict(type='mmeffvit.EfficientFormerV2')
MOBIATT = dict(type='mmeffvit.EfficientFormerV2MobiAtt')
MOBIATT_ALL = dict(type='mmeffvit.EfficientFormerV2MobiAtt', downsampling='mobile')

PVTV2 = dict(type='mmeffvit.PVTv2')
PVTV2_MOBIATT = dict(type='mmeffvit.PVTv2MobiAtt')
DEIT = dict(type='mmeffvit.DeiT')
DEIT_MOBIATT = dict(type='mmeffvit.DeiTMobiAtt')

# parameters without classifier; millions with it, as published code counts them; MACs in
# 10**9 of convolutions and matrix products, at the side of a square image
# fmt: off
CASES = [
    (SWIFTFORMER, 'xs',        3_032_920,  3.475, 0.602, 224),
    (SWIFTFORMER, 's',         5_641_680,  6.092, 0.985, 224),
    (SWIFTFORMER, 'l1',       11_287_152, 12.058, 1.596, 224),
    (SWIFTFORMER, 'l3',       27_467_712, 28.495, 4.008, 224),
    (SHVIT, 's1',              6_009_168,  6.331, 0.2413, 224),
    (SHVIT, 's2',             11_033_176, 11.483, 0.3654, 224),
    (SHVIT, 's3',             13_795_377, 14.245, 0.6006, 224),
    (SHVIT, 's4',             16_138_588, 16.588, 0.9862, 256),
    (MOBILEVITV2, '050',       1_113_593,  1.371, 0.465, 256),
    (MOBILEVITV2, '075',       2_481_009,  2.866, 1.028, 256),
    (MOBILEVITV2, '100',       4_388_841,  4.902, 1.812, 256),
    (MOBILEVITV2, '125',       6_837_089,  7.478, 2.817, 256),
    (MOBILEVITV2, '150',       9_825_753, 10.595, 4.042, 256),
    (MOBILEVITV2, '175',      13_354_833, 14.252, 5.489, 256),
    (MOBILEVITV2, '200',      17_424_329, 18.449, 7.156, 256),
    (EFFICIENTFORMERV2, 's0',  3_245_904,  3.600, 0.3959, 224),
    (EFFICIENTFORMERV2, 's1',  5_735_112,  6.186, 0.6520, 224),
    (EFFICIENTFORMERV2, 's2', 12_131_536, 12.710, 1.2469, 224),
    (EFFICIENTFORMERV2, 'l',  25_551_520, 26.322, 2.5525, 224),
    (MOBIATT, 's0',            3_243_760,  3.598, 0.3840, 224),
    (MOBIATT, 's2',           12_127_248, 12.706, 1.2230, 224),
    (MOBIATT, 'l',            25_545_088, 26.316, 2.5168, 224),
    (MOBIATT_ALL, 's0',        3_242_192,  3.597, 0.3780, 224),
    (MOBIATT_ALL, 's2',       12_125_680, 12.704, 1.2171, 224),
    (MOBIATT_ALL, 'l',        25_543_520, 26.314, 2.5109, 224),
    (PVTV2, 'b0',       3_409_760, 3.667, 0.566, 224),
    (PVTV2, 'b1',      13_496_000, 14.009, 2.108, 224),
    (PVTV2, 'b2',      24_849_856, 25.363, 4.026, 224),
    (PVTV2, 'b3',      44_725_696, 45.239, 6.897, 224),
    (PVTV2, 'b4',      62_043_072, 62.556, 10.101, 224),
    (PVTV2, 'b5',      81_443_008, 81.956, 11.717, 224),
    (PVTV2_MOBIATT, 'b0',      3_204_000,  3.461, 0.563, 224),
    (PVTV2_MOBIATT, dict(type='b0'), 3_204_000, 3.461, 0.563, 224),
    (PVTV2_MOBIATT, 'b2',     20_549_376, 21.062, 4.038, 224),
    (PVTV2_MOBIATT, 'b3',     35_498_496, 36.011, 6.961, 224),
    (DEIT, 't',                5_524_032,  5.717, 1.254, 224),
    (DEIT, 's',               21_664_896, 22.051, 4.599, 224),
    (DEIT, 'b',               85_797_120, 86.568, 17.564, 224),
    (DEIT_MOBIATT, 't',        5_524_032,  5.717, 1.079, 224),
    (DEIT_MOBIATT, 's',       21_664_896, 22.051, 4.249, 224),
    (DEIT_MOBIATT, 'b',       85_797_120, 86.568, 16.863, 224),
]
# fmt: on
FEW = ('xs', 's1', '050', 's0', 'b0', 't')


def classifier(backbone: nn.Module) -> int:
    """Parameters of the official head for 1000 classes."""
    channels = backbone.channels[-1]
    norms, linears = DECLARED[type(backbone).__name__].classifier
    return norms * 2 * channels + linears * (1000 * channels + 1000)


@pytest.mark.parametrize(
    ('family', 'arch', 'parameters', 'millions', 'giga_macs', 'side'),
    sampled(CASES, [case for case in CASES if case[1] in FEW]),
)
def test_counts_are_those_of_the_official_code(family, arch, parameters, millions, giga_macs, side):
    with torch.device('meta'):
        backbone = MODELS.build(dict(**family, arch=arch)).eval()
        assert sum(p.numel() for p in backbone.parameters()) == parameters
        assert round((parameters + classifier(backbone)) / 1e6, 3) == pytest.approx(millions)
        with FlopCounterMode(display=False) as counter:
            backbone(torch.empty(1, 3, side, side))
    assert counter.get_total_flops() / 2e9 == pytest.approx(giga_macs, rel=0.01)
