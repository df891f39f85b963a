"""MobileViTv2: sizes, odd maps, dilation, and parity with timm on the same weights."""

import pytest
import torch
from mmengine.registry import MODELS

from mmeffvit.models import MobileViTv2
from mmeffvit.models.mobilevitv2.backbone import VARIANTS
from tests.models.parity import assert_same_maps, load_from, randomized

# stem, maps and attention of the released models: width tables of the official code
# fmt: off
WIDTHS = {
    '050': (16, (32, 64, 128, 192, 256),    (64, 96, 128)),
    '075': (24, (48, 96, 192, 288, 384),    (96, 144, 192)),
    '100': (32, (64, 128, 256, 384, 512),   (128, 192, 256)),
    '125': (40, (80, 160, 320, 480, 640),   (160, 240, 320)),
    '150': (48, (96, 192, 384, 576, 768),   (192, 288, 384)),
    '175': (56, (112, 224, 448, 672, 896),  (224, 336, 448)),
    '200': (64, (128, 256, 512, 768, 1024), (256, 384, 512)),
}
# fmt: on


def sides(backbone: MobileViTv2, height: int, width: int) -> list[tuple[int, int]]:
    with torch.no_grad():
        return [tuple(m.shape[2:]) for m in backbone.eval()(torch.rand(1, 3, height, width))]


@pytest.mark.parametrize('output_stride', [16, 8])
def test_dilated_maps_equal_those_of_timm(timm, tmp_path, output_stride):
    theirs = randomized(timm.create_model('mobilevitv2_050', output_stride=output_stride))
    ours = load_from(MobileViTv2('050', output_stride=output_stride), theirs, tmp_path)
    assert_same_maps(ours, theirs, torch.randn(1, 3, 128, 192))


@pytest.mark.parametrize('arch', WIDTHS)
def test_widths_round_to_those_of_the_official_code(arch):
    sizes = VARIANTS[arch]
    assert (sizes.stem_channels, sizes.channels, sizes.attention_channels) == WIDTHS[arch]
    assert MobileViTv2(int(arch) / 100).channels == sizes.channels


def test_any_multiple_of_the_width_builds():
    backbone = MobileViTv2(0.33)
    # 64 * 0.33 is nearest to 16, but that is under nine tenths of it
    assert backbone.channels == (32, 40, 88, 128, 168)
    assert sides(backbone, 64, 64)[-1] == (2, 2)


@pytest.mark.parametrize('width', [0, -1.0, float('nan')])
def test_an_impossible_width_is_named(width):
    with pytest.raises(ValueError, match=f'arch is {width}; .* above 0'):
        MobileViTv2(width)


def test_restored_maps_have_the_declared_size_and_equal_the_official_ones_where_none_is_odd():
    official = MobileViTv2('050').eval()
    restored = MobileViTv2('050', odd_size='restore').eval()
    restored.load_state_dict(official.state_dict())
    assert sides(restored, 250, 333)[2:] == [(32, 42), (16, 21), (8, 11)]
    x = torch.rand(1, 3, 128, 192)
    with torch.no_grad():
        for ours, other in zip(restored(x), official(x), strict=True):
            assert torch.equal(ours, other)


@pytest.mark.parametrize('odd_size', ['official', 'restore'])
def test_feature_pyramids_work_with_odd_maps(odd_size):
    pytest.importorskip('mmdet')
    backbone = MobileViTv2('050', odd_size=odd_size, out_indices=(1, 2, 3, 4)).eval()
    neck = MODELS.build(
        dict(
            type='mmdet.FPN',
            in_channels=list(backbone.channels),
            out_channels=8,
            num_outs=5,
        )
    )
    with torch.no_grad():
        maps = backbone(torch.rand(1, 3, 97, 161))
        levels = neck(maps)
    assert [p.shape[2:] for p in levels[:4]] == [m.shape[2:] for m in maps]


def test_an_unknown_treatment_of_odd_sizes_is_named_with_the_choices():
    with pytest.raises(ValueError, match=r"'crop'; choose one of \('official', 'restore'\)"):
        MobileViTv2(odd_size='crop')
