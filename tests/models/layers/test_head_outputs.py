"""Outputs of heads, seen and replaced through hooks."""

import copy
from functools import partial

import pytest
import torch
from mmcv.ops import MultiScaleDeformableAttention
from mmdet.models.backbones.swin import WindowMSA
from torch import nn

from mmeffvit.analysis.heads.analyze import compare_heads
from mmeffvit.analysis.heads.layers import heads_of, layers_with_heads
from mmeffvit.models.deit.attention import MultiHeadAttention
from mmeffvit.models.efficientformerv2.attention import TalkingHeadsAttention
from mmeffvit.models.layers.head_outputs import keep_only, remove
from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobile_attention.ablations import (
    CastlingAttention,
    ControlVariateAttention,
    FlowAttention,
    GatedAttention,
    TokenSoftmaxAttention,
)
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.pvtv2.attention import SpatialReductionAttention
from mmeffvit.models.shvit.ablations import PartialMultiHeadAttention

# layers of 4 heads, and the inputs of their forward
X = (torch.arange(2 * 16 * 5 * 4) * 0.7).sin().view(2, 16, 5, 4)
MIXERS = {
    'mobile': MobileAttention(16, 16, 4),
    'linear': MobileAttention(16, 16, 4, competition=False),
    'talking': TalkingHeadsAttention(4, (5, 4)),
    'token_softmax': TokenSoftmaxAttention(16, 16, 4),
    'flow': FlowAttention(16, 16, 4),
    'eva': ControlVariateAttention(16, 16, 4, window=2, chunks=2),
    'gated': GatedAttention(16, 16, 4),
    'castling': CastlingAttention(16, 16, 4),
}
SEQUENCE = X.flatten(2).transpose(1, 2)  # (2, 20, 16)


def torch_attention(**options) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, **options).eval()
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    return layer


@torch.no_grad()
@pytest.mark.parametrize('name', MIXERS)
def test_a_head_of_a_mixer_is_zeroed_alone(name):
    layer = MIXERS[name].eval()
    inputs = X, X.roll(1, 1), X.roll(2, 1)
    whole = layer(*inputs)
    handle = heads_of(layer).hook(remove(2))
    zeroed = layer(*inputs)
    handle.remove()
    assert not zeroed[:, 8:12].any()
    rest = [*range(8), *range(12, 16)]
    torch.testing.assert_close(zeroed[:, rest], whole[:, rest], rtol=0, atol=0)
    torch.testing.assert_close(layer(*inputs), whole, rtol=0, atol=0)


def deformable_attention() -> MultiScaleDeformableAttention:
    layer = MultiScaleDeformableAttention(16, 4, num_levels=1, batch_first=True)
    nn.init.normal_(layer.attention_weights.weight)
    return layer


def partial_attention() -> PartialMultiHeadAttention:
    layer = PartialMultiHeadAttention(24, 16)
    nn.init.ones_(layer.proj.norm.weight)
    return layer


FIRST = SEQUENCE.transpose(0, 1)
HIDDEN = torch.arange(20).expand(2, -1) >= torch.tensor([[20], [15]])
SAMPLED = dict(
    reference_points=((torch.arange(80) * 0.7).sin() / 2 + 0.5).view(2, 20, 1, 2),
    spatial_shapes=torch.tensor([[5, 4]]),
    level_start_index=torch.tensor([0]),
)
# layers of 4 heads with a projection of their outputs: its name, and the inputs of the forward
PROJECTED = {
    'spatial reduction': (lambda: SpatialReductionAttention(16, 4, 2), 'proj', (X,), {}),
    'no reduction': (lambda: SpatialReductionAttention(16, 4), 'proj', (X,), {}),
    'tokens': (lambda: MultiHeadAttention(16, 4), 'proj', (SEQUENCE, (4, 5)), {}),
    'map': (lambda: SelfAttention(16, 4), 'out', (X,), {}),
    'part': (partial_attention, 'proj.conv', (torch.cat((X, X[:, :8]), dim=1),), {}),
    'swin': (lambda: WindowMSA(16, 4, (2, 2)), 'proj', (SEQUENCE[:, :4],), {}),
    'torch': (torch_attention, 'out_proj', (FIRST, FIRST, FIRST.flip(-1)),
              dict(key_padding_mask=HIDDEN)),
    'torch, batch first': (partial(torch_attention, batch_first=True), 'out_proj', (),
                           dict(query=SEQUENCE, key=SEQUENCE, value=SEQUENCE.flip(-1))),
    'deformable': (deformable_attention, 'output_proj', (SEQUENCE,), SAMPLED),
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize('name', PROJECTED)
def test_a_head_is_its_columns_of_the_projection(name):
    make, out, inputs, options = PROJECTED[name]
    layer = make().eval()

    def run(model: nn.Module) -> torch.Tensor:
        found = model(*inputs, **options)
        return found[0] if isinstance(found, tuple) else found

    whole = run(layer)
    for visit, own in ((remove(1), 0.0), (keep_only(1), 1.0)):
        blind = copy.deepcopy(layer)
        weight = blind.get_submodule(out).weight
        factors = torch.full((weight.shape[1],), 1 - own)
        factors[4:8] = own
        factors[16:] = 1.0  # channels of no head
        weight.mul_(factors.view(-1, *[1] * (weight.ndim - 2)))
        handle = heads_of(layer).hook(visit)
        torch.testing.assert_close(run(layer), run(blind))
        assert not torch.allclose(run(layer), whole)
        handle.remove()
    torch.testing.assert_close(run(layer), whole)
    if name != 'deformable':
        with compare_heads(layers_with_heads(layer)) as (outputs, maps):
            run(layer)
        assert len(outputs[''].by_head()) == 4
        assert len(maps) == (name != 'map')


def mean_cosines(heads: torch.Tensor) -> list[float]:
    """(B, M, N): the similarity of each head to the others."""
    cosines = torch.cosine_similarity(heads[:, :, None], heads[:, None], dim=3).mean(dim=0)
    return pytest.approx(((cosines.sum(1) - 1) / (len(cosines) - 1)).tolist(), rel=1e-4)


@torch.no_grad()
def test_similarity_is_the_mean_cosine_to_the_other_heads():
    layer = MIXERS['talking'].eval()
    inputs = X, X.roll(1, 1), X.roll(2, 1)
    with compare_heads(layers_with_heads(layer)) as (outputs, maps):
        heads = layer(*inputs).flatten(2).unflatten(1, (4, -1)).flatten(2)
    assert outputs[''].by_head() == mean_cosines(heads)
    assert outputs[''].images == maps[''].images == 2


@torch.no_grad()
def test_whole_maps_of_all_tokens_are_compared():
    layer = MultiHeadAttention(16, 4).eval()
    tokens = SEQUENCE[:, :14]  # two class tokens and a map of 3 x 4
    query, key, _ = layer.qkv(tokens).chunk(3, dim=2)
    query, key = (m.unflatten(2, (4, 4)).transpose(1, 2) for m in (query, key))
    maps = (query @ key.mT / 2).softmax(3).flatten(2)  # (B, M, T T)
    with compare_heads(layers_with_heads(layer)) as (_, found):
        layer(tokens, (3, 4))
    assert found[''].by_head() == mean_cosines(maps)


@torch.no_grad()
def test_maps_of_a_layer_that_reads_one_query_are_those_of_every_query():
    layer = PartialMultiHeadAttention(24, 16).eval()
    x = torch.cat((X, X[:, :8]), dim=1)
    query, key, _ = layer.qkv(layer.norm(x[:, :16])).flatten(2).split(layer.qkv_sizes, dim=1)
    query, key = (m.unflatten(1, (4, 16)) for m in (query, key))
    maps = (query.mT @ key / 4).softmax(3).flatten(2)
    with compare_heads(layers_with_heads(layer)) as (_, found):
        layer(x)
    assert found[''].by_head() == mean_cosines(maps)


def test_a_single_head_has_no_others():
    layer = SpatialReductionAttention(16, 1).eval()
    with compare_heads(layers_with_heads(layer)) as (outputs, maps), torch.no_grad():
        layer(X)
    assert outputs[''].by_head() == maps[''].by_head() == [None]
