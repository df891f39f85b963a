"""Every attention that a backbone takes by an argument, in that backbone."""

from functools import partial

import pytest
import torch

from mmeffvit.deploy.compare import compare, expect_maps
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import export_backbone
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.models import (
    Backbone,
    EfficientFormerV2,
    MobileViTv2,
    PVTv2,
    PVTv2MobiAtt,
    SHViT,
    SwiftFormer,
)
from mmeffvit.models.mobilevitv2.ablations import LinformerAttention
from tests.deploy.formats.onnx.test_write import assert_agrees
from tests.deploy.models import smooth_image
from tests.models.parity import randomized
from tests.models.test_contract import TINY, total
from tests.variants import sampled

PVT, SWIFT, SHVIT = (TINY[name] for name in ('PVTv2', 'SwiftFormer', 'SHViT'))
EVA = dict(type='eva', window=3, chunks=4)


MOBILE = dict(
    stem_channels=8, channels=(8, 8, 12, 8, 8), attention_channels=(8, 8, 8),
    attention_depths=(1, 1, 1),
)  # fmt: skip


def joined(family: type[Backbone], arch: dict, attentions: tuple, first: int = 0) -> Backbone:
    """A backbone with another attention in each stage: one graph for all of them."""
    whole, *others = (family(arch, attention=attention) for attention in attentions)
    for index, other in enumerate(others, first + 1):
        whole.stages[index] = other.stages[index]
    return whole


# every attention of every family but its default, which is in the contract
CASES = {
    'pvtv2': partial(
        joined, PVTv2MobiAtt, PVT, ('token_softmax', 'token_linear', 'squeeze_excite', 'gated')
    ),
    'pvtv2 rivals': partial(joined, PVTv2MobiAtt, PVT, ('hydra', EVA, 'flow', 'castling')),
    'pvtv2 among heads': partial(joined, PVTv2MobiAtt, PVT, ('head_softmax', 'head_linear')),
    'swiftformer': partial(
        joined, SwiftFormer, SWIFT, ('key_value_additive', 'self', 'transpose', 'separable')
    ),
    'swiftformer others': partial(
        joined, SwiftFormer, SWIFT, ('cross_covariance', dict(type='additive', form='paper'))
    ),
    'shvit': partial(joined, SHViT, SHVIT, ('partial_multi_head', 'bottleneck'), first=1),
    'shvit multi-head': partial(SHViT, SHVIT, attention=dict(type='multi_head', num_heads=2)),
    'mobilevitv2': partial(
        joined,
        MobileViTv2,
        MOBILE,
        ('self', dict(type='linformer', projected=5), dict(type='latents', num_latents=3)),
        first=2,
    ),
    'mobilevitv2 sampling': partial(
        joined,
        MobileViTv2,
        MOBILE,
        (
            dict(type='sampled', pixels=2, sampling='top'),
            dict(type='sampled', patches=0.5, sampling='random'),
            dict(type='latents', patch_size=1),
        ),
        first=2,
    ),
}
# the others with --all-variants
EXPORTED = ('pvtv2 rivals', 'mobilevitv2')


@pytest.mark.parametrize('name', CASES)
def test_a_backbone_trains_with_any_attention_at_any_size(name):
    backbone = CASES[name]().train()
    total(backbone(torch.randn(1, 3, 97, 71))).backward()
    for key, parameter in backbone.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@pytest.mark.parametrize('name', sampled(list(CASES), EXPORTED))
def test_a_backbone_is_fused_and_exported_with_any_attention(name, tmp_path):
    backbone = randomized(CASES[name]())
    path = export_backbone(backbone, tmp_path / 'maps.onnx', (65, 96), batch=1)
    expect = partial(expect_maps, BackboneGraph(backbone), backbone)
    assert_agrees(compare(open_onnx(path).run, expect, [smooth_image((65, 96))]))


@pytest.mark.parametrize(
    ('family', 'arch', 'options', 'ignored'),
    [
        (PVTv2, 'b0', dict(mobile_stages=(0, 1, 2)), 24),  # 6 blocks with a convolution and a norm
        (EfficientFormerV2, 's0', dict(attention='mobile'), 20),  # 4 blocks with talking heads
        (EfficientFormerV2, 's0', dict(attention='mobile', downsampling='mobile'), 21),  # a table
    ],
)
def test_weights_of_the_usual_attention_fit_mobile_attention(
    family, arch, options, ignored, tmp_path, log
):
    source, mobile = randomized(family(arch)).state_dict(), family(arch, **options)
    torch.save(source, tmp_path / 'usual.pth')
    mobile.load_pretrained(tmp_path / 'usual.pth')
    assert all(torch.equal(value, source[key]) for key, value in mobile.state_dict().items())
    assert f'{ignored} ignored, 0 missing' in log.text


def test_linformer_is_built_for_the_patches_of_its_stage_at_256_pixels():
    for output_stride, grids in ((32, (16, 8, 4)), (8, (16, 16, 16))):
        backbone = MobileViTv2(MOBILE, attention='linformer', output_stride=output_stride)
        layers = [m for m in backbone.modules() if isinstance(m, LinformerAttention)]
        assert [m.key_projection.shape[1:] for m in layers] == [(side, side) for side in grids]
