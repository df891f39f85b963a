"""Heads of every attention that a backbone takes."""

from inspect import signature

import pytest
import torch
from torch import nn

from mmeffvit.analysis.heads.analyze import compare_heads
from mmeffvit.analysis.heads.layers import layers_with_heads
from mmeffvit.errors import UserError
from mmeffvit.models import families
from mmeffvit.models.layers.head_outputs import remove
from tests.models.parity import randomized
from tests.models.test_contract import TINY
from tests.variants import sampled

CASES = [(family, name) for family, cls in families().items() for name in cls.attentions]
WITH_ONE_HEAD = {
    ('MobileViTv2', name) for name in ('separable', 'latents', 'sampled')
} | {
    ('SwiftFormer', name) for name in ('additive', 'key_value_additive', 'separable')
} | {
    ('SHViT', name) for name in ('single_head', 'bottleneck', 'none')
}  # fmt: skip
# with every family and every attention
FEW = {key: case for case in CASES for key in case}.values()


def test_every_family_declares_its_attention():
    assert {family for family, _ in CASES} == set(families())
    assert set(CASES) >= WITH_ONE_HEAD


@torch.no_grad()
@pytest.mark.parametrize(('family', 'name'), sampled(CASES, FEW))
def test_heads_of_every_attention_are_compared_and_removed(family, name):
    cls, options = families()[family], {}
    if 'mobile_stages' in signature(cls).parameters:
        options['mobile_stages'] = (0, 1, 2, 3)
    if name == 'eva' and family.startswith('DeiT'):
        options['class_tokens'] = 0
    backbone = randomized(cls(TINY[family], attention=name, **options)).eval()
    if (family, name) in WITH_ONE_HEAD:
        with pytest.raises(UserError, match='no attention layer with heads'):
            layers_with_heads(backbone)
        return
    for parameter in backbone.parameters():
        if not parameter.any():  # a zero-initialized norm would hide the heads
            nn.init.ones_(parameter)
    found = layers_with_heads(backbone)
    places = [each for each, _ in backbone.named_modules() if each.endswith('.attention')]
    inside = [sum(f'{layer}.'.startswith(f'{place}.') for layer in found) for place in places]
    assert inside == [1] * len(found)
    image = torch.randn(1, 3, 64, 96)
    with compare_heads(found) as (outputs, maps):
        before = backbone(image)
    assert set(found) == set(outputs) >= set(maps)
    layer, similarity = outputs.popitem()
    changed = []
    for head in range(len(similarity.by_head())):
        with found[layer].hook(remove(head)):
            changed.append(not backbone(image)[-1].equal(before[-1]))
    assert any(changed)  # a ReLU may hide one
