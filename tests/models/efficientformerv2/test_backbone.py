"""EfficientFormerV2: any size, both attentions."""

import pytest
import torch
import torch.nn.functional as F

from mmeffvit.models import EfficientFormerV2
from mmeffvit.models.efficientformerv2.attention import LocalGlobalAttention, TalkingHeadsAttention
from tests.models.declared import EFFICIENTFORMERV2 as TINY
from tests.models.parity import randomized


@pytest.mark.parametrize('size', [(6, 8), (7, 5)])
def test_at_half_resolution_upsampling_precedes_the_activation(size):
    mixer = TalkingHeadsAttention(2, (3, 3))
    layer = randomized(LocalGlobalAttention(4, 6, 8, mixer, stride=2)).double()
    x = torch.randn(1, 4, *size, dtype=torch.float64)
    half = layer.reduce(x)
    assert half.shape[2:] == tuple(-(-side // 2) for side in size)
    value = layer.value(half)
    mixed = mixer(layer.query(half), layer.key(half), value) + layer.value_local(value)
    expected = layer.project(F.gelu(F.interpolate(mixed, size, mode='bilinear')))
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('attention', ['local_global', 'mobile'])
def test_large_inputs_stay_finite_in_autocast(attention, dtype):
    """With statistics of normal inputs, inputs of 1e4 give maps of 1e4 and overflowing scores."""
    model = EfficientFormerV2(TINY, attention=attention)
    for _ in range(5):
        model(torch.randn(2, 3, 64, 64))
    scores = []
    for module in model.eval().modules():
        if isinstance(module, TalkingHeadsAttention):
            module.register_forward_pre_hook(
                lambda _, inputs: scores.append(inputs[0].abs().max() * inputs[1].abs().max())
            )
    with torch.no_grad(), torch.autocast('cpu', dtype=dtype):
        maps = model(1e4 * torch.randn(2, 3, 64, 64))
    assert max(map(float, scores)) > torch.finfo(torch.float16).max
    assert all(feature.isfinite().all() for feature in maps)
