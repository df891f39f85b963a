"""Models packed for oneDNN give the maps of the model they come from."""

import copy
import io

import pytest
import torch
from mmengine.registry import init_default_scope
from torch import nn

from mmeffvit.deploy import fuse, optimize_for_cpu
from mmeffvit.layers.packed_conv import PackedConv2d
from tests.backbones.test_contract import SMALLEST, build
from tests.configs.models import build as build_leaf
from tests.configs.models import load
from tests.deploy.test_fuse import assert_equal_maps, randomise


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_packed_maps_equal_the_others_at_one_size_after_another(family, arch):
    backbone = randomise(build(family, arch))
    packed = optimize_for_cpu(backbone)
    for size in [(97, 71), (64, 96), (97, 71)]:
        assert_equal_maps(packed, backbone, size)
    assert any(isinstance(m, PackedConv2d) for m in packed.modules())
    left = [name for name, m in packed.named_modules() if type(m) is nn.Conv2d]
    assert all('.mixer.' in name for name in left)  # heads, not maps


def test_a_packed_model_can_be_copied_and_saved():
    backbone = randomise(build('SHViT', 's1'))
    packed = optimize_for_cpu(backbone)
    assert_equal_maps(packed, backbone, (64, 64))  # weights are laid out now
    assert_equal_maps(copy.deepcopy(packed), backbone, (64, 96))
    file = io.BytesIO()
    torch.save(packed.state_dict(), file)


def test_a_packed_detector_finds_the_same():
    pytest.importorskip('mmdet')
    from mmdet.structures import DetDataSample

    config = load('maskrcnn_swiftformer_xs_shapes')
    init_default_scope(config.default_scope)
    model = randomise(build_leaf(config))
    packed, fused = optimize_for_cpu(model), fuse(model)
    shape = (128, 160)
    meta = dict(img_shape=shape, ori_shape=shape, scale_factor=(1.0, 1.0), batch_input_shape=shape)
    x = torch.randn(1, 3, *shape)
    with torch.no_grad():
        found, expected = (
            m.predict(x, [DetDataSample(metainfo=meta)])[0].pred_instances for m in (packed, fused)
        )
    assert len(found) == len(expected)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found.bboxes, expected.bboxes, rtol=1e-3, atol=1e-2)


def test_only_float32_on_the_cpu_is_packed():
    backbone = build('SHViT', 's1').double()
    with pytest.raises(ValueError, match=r'torch\.float64'):
        optimize_for_cpu(backbone)
