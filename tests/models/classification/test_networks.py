"""Layers of our papers in networks of mmpretrain: what they replace, and that all else stays."""

import pytest
import torch

pytest.importorskip('mmpretrain')

from mmpretrain.models.backbones import EfficientFormer as PlainEfficientFormer
from mmpretrain.models.backbones import MobileViT as PlainMobileViT
from mmpretrain.models.backbones.poolformer import Pooling

from mmeffvit.models.classification import EfficientFormer, MobileViT
from mmeffvit.models.classification.networks import OnTokens
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention
from mmeffvit.models.swiftformer.backbone import ConvEncoder


def names(model: torch.nn.Module, *replaced: str) -> set[str]:
    """Names of the tensors outside the parts that are replaced."""
    return {key for key in model.state_dict() if not any(part in key for part in replaced)}


def test_separable_attention_replaces_that_of_mobilevit_and_nothing_else():
    model = MobileViT('xxs')
    assert names(model, '.attn.') == names(PlainMobileViT('xx_small'), '.attn.')
    layers = [m for m in model.modules() if isinstance(m, OnTokens)]
    assert len(layers) == 2 + 4 + 3
    layer, x = layers[0].double(), torch.randn(3, 5, 64, dtype=torch.float64)
    query, key, value = layer.layer.qkv(x.mT[..., None])[..., 0].split((1, 64, 64), dim=1)
    context = (query.softmax(dim=2) * key).sum(dim=2, keepdim=True)
    expected = layer.layer.out((value.relu() * context)[..., None])[..., 0].mT
    torch.testing.assert_close(layer(x), expected)


def test_a_single_head_costs_what_four_do():
    single, four = MobileViT('s', attention='self', num_heads=1), PlainMobileViT('small')
    assert [(k, v.shape) for k, v in single.state_dict().items()] == [
        (k, v.shape) for k, v in four.state_dict().items()
    ]
    heads = {m.num_heads for m in single.modules() if hasattr(m, 'num_heads')}
    assert heads == {1}


@pytest.mark.parametrize('attention', ['self', 'additive'])
def test_convolutions_replace_pooling_and_then_additive_attention_replaces_self_attention(
    attention,
):
    options = dict(reshape_last_feat=True)
    model = EfficientFormer('l1', attention=attention, **options)
    model.eval()  # mmpretrain's returns None
    kinds = [type(module) for module in model.modules()]
    assert (kinds.count(ConvEncoder), kinds.count(Pooling)) == (3 + 2 + 6 + 3, 0)
    assert kinds.count(EfficientAdditiveAttention) == (attention == 'additive')
    stem_and_ends = ('patch_embed', 'norm3')
    plain = PlainEfficientFormer('l1', **options).state_dict()
    assert {k for k in plain if k.startswith(stem_and_ends)} <= {*model.state_dict()}
    with torch.no_grad():
        assert model(torch.zeros(1, 3, 224, 224))[-1].shape == (1, 448, 7, 7)
