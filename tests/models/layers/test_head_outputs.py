"""Outputs of heads, seen and replaced through hooks."""

import copy

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


@torch.no_grad()
@pytest.mark.parametrize('reduction', [1, 2])
def test_a_head_of_spatial_reduction_is_its_columns_of_the_projection(reduction):
    layer = SpatialReductionAttention(16, 4, reduction).eval()
    blind = copy.deepcopy(layer)
    blind.proj.weight[:, 4:8] = 0
    heads_of(layer).hook(remove(1))
    torch.testing.assert_close(layer(X), blind(X))


@torch.no_grad()
@pytest.mark.parametrize(
    ('layer', 'out', 'inputs'),
    [
        (MultiHeadAttention(16, 4), 'proj', (SEQUENCE, (4, 5))),
        (SelfAttention(16, 4), 'out', (X,)),
        (PartialMultiHeadAttention(24, 16), 'proj.conv', (torch.cat((X, X[:, :8]), dim=1),)),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_head_of_other_layers_is_its_columns_of_the_projection(layer, out, inputs):
    if isinstance(layer, PartialMultiHeadAttention):
        nn.init.ones_(layer.proj.norm.weight)
    layer.eval()
    blind = copy.deepcopy(layer)
    blind.get_submodule(out).weight[:, 4:8] = 0
    expected = blind(*inputs)
    assert not torch.allclose(layer(*inputs), expected)
    with compare_heads(layers_with_heads(layer)) as (outputs, maps):
        layer(*inputs)
    assert len(outputs[''].by_head()) == 4
    assert len(maps) == layer.is_readable
    heads_of(layer).hook(remove(1))
    torch.testing.assert_close(layer(*inputs), expected)


@torch.no_grad()
@pytest.mark.parametrize('batch_first', [False, True])
def test_a_head_of_torchs_attention_is_its_columns_of_the_projection(batch_first):
    layer = torch_attention(batch_first=batch_first)
    blind = copy.deepcopy(layer)
    blind.out_proj.weight[:, 12:] = 0
    x = SEQUENCE if batch_first else SEQUENCE.transpose(0, 1)
    hidden = torch.zeros(2, 20, dtype=torch.bool)
    hidden[1, 15:] = True
    given = dict(query=x, key=x, value=x.flip(-1), key_padding_mask=hidden)
    expected = blind(**given)[0]
    heads_of(layer).hook(remove(3))
    torch.testing.assert_close(layer(**given)[0], expected)
    torch.testing.assert_close(layer(*given.values())[0], expected)


@torch.no_grad()
def test_a_head_of_deformable_attention_is_its_columns_of_the_projection():
    torch.manual_seed(0)
    layer = MultiScaleDeformableAttention(16, 4, num_levels=1, batch_first=True).eval()
    nn.init.normal_(layer.attention_weights.weight)
    blind = copy.deepcopy(layer)
    blind.output_proj.weight[:, :4] = 0
    given = dict(
        query=SEQUENCE,
        reference_points=torch.rand(2, 20, 1, 2),
        spatial_shapes=torch.tensor([[5, 4]]),
        level_start_index=torch.tensor([0]),
    )
    heads_of(layer).hook(remove(0))
    torch.testing.assert_close(layer(**given), blind(**given))


@torch.no_grad()
def test_similarity_is_the_mean_cosine_to_the_other_heads():
    layer = MIXERS['talking'].eval()
    inputs = X, X.roll(1, 1), X.roll(2, 1)
    with compare_heads(layers_with_heads(layer)) as (outputs, maps):
        heads = layer(*inputs).flatten(2).unflatten(1, (4, -1)).flatten(2)
    cosines = torch.cosine_similarity(heads[:, :, None], heads[:, None], dim=3).mean(dim=0)
    expected = [(row.sum() - row[i]) / 3 for i, row in enumerate(cosines)]
    torch.testing.assert_close(torch.tensor(outputs[''].by_head()), torch.stack(expected))
    assert outputs[''].images == maps[''].images == 2


@torch.no_grad()
def test_equal_heads_have_equal_maps_and_opposite_outputs_are_seen():
    layer = torch_attention(batch_first=True)
    query, key, value = layer.in_proj_weight.view(3, 4, 4, 16)
    query[:], key[:] = query[:1], key[:1]
    value[:] = value[:1]
    value[1] *= -1
    layer.in_proj_bias[:] = 0
    with compare_heads(layers_with_heads(layer)) as (outputs, maps):
        layer(SEQUENCE, SEQUENCE, SEQUENCE)
    torch.testing.assert_close(maps[''].by_head(), [1.0] * 4)
    torch.testing.assert_close(outputs[''].by_head(), [1 / 3, -1.0, 1 / 3, 1 / 3])


@torch.no_grad()
@pytest.mark.parametrize('build', [MultiHeadAttention, nn.MultiheadAttention])
def test_keeping_one_head_is_zeroing_the_columns_of_all_others(build):
    layer = torch_attention(batch_first=True) if build is nn.MultiheadAttention else build(16, 4)
    blind, inputs = copy.deepcopy(layer), (SEQUENCE,) * 3
    if build is MultiHeadAttention:
        inputs = (SEQUENCE, (4, 5))
    projection = blind.proj if build is MultiHeadAttention else blind.out_proj
    kept = projection.weight[:, 8:12].clone()
    projection.weight[:] = 0
    projection.weight[:, 8:12] = kept
    expected = blind(*inputs)
    whole = layer(*inputs)
    handle = heads_of(layer).hook(keep_only(2))
    first = (lambda x: x[0]) if build is nn.MultiheadAttention else (lambda x: x)
    torch.testing.assert_close(first(layer(*inputs)), first(expected))
    handle.remove()
    torch.testing.assert_close(first(layer(*inputs)), first(whole))


@torch.no_grad()
def test_whole_maps_of_all_tokens_are_compared():
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4).eval()
    tokens = SEQUENCE[:, :14]  # two class tokens and a map of 3 x 4
    query, key, _ = layer.qkv(tokens).chunk(3, dim=2)
    maps = []
    for q, k in zip(query.chunk(4, dim=2), key.chunk(4, dim=2), strict=True):
        maps.append((q @ k.transpose(1, 2) / 2).softmax(2).flatten(1))
    expected = torch.stack(
        [torch.stack([torch.cosine_similarity(a, b, dim=1).mean() for b in maps]) for a in maps]
    )
    expected = (expected.sum(1) - 1) / 3
    with compare_heads(layers_with_heads(layer)) as (_, found):
        layer(tokens, (3, 4))
    torch.testing.assert_close(torch.tensor(found[''].by_head()), expected)


@torch.no_grad()
def test_maps_of_a_layer_that_reads_one_query_are_those_of_every_query():
    layer = PartialMultiHeadAttention(24, 16).eval()
    x = torch.cat((X, X[:, :8]), dim=1)
    query, key, _ = layer.qkv(layer.norm(x[:, :16])).flatten(2).split(layer.qkv_sizes, dim=1)
    maps = [
        (q.transpose(1, 2) @ k / 4).softmax(2).flatten(1)
        for q, k in zip(query.chunk(4, dim=1), key.chunk(4, dim=1), strict=True)
    ]
    others = [torch.cosine_similarity(maps[0], m, dim=1).mean() for m in maps[1:]]
    with compare_heads(layers_with_heads(layer)) as (_, found):
        layer(x)
    assert found[''].by_head()[0] == pytest.approx(float(sum(others) / 3), rel=1e-4)


@torch.no_grad()
def test_windows_of_swin_have_heads():
    torch.manual_seed(0)
    layer = WindowMSA(16, 4, (2, 2)).eval()
    windows = torch.randn(6, 4, 16)
    blind = copy.deepcopy(layer)
    blind.proj.weight[:, 4:8] = 0
    with compare_heads(layers_with_heads(layer)) as (outputs, maps):
        layer(windows)
    assert outputs[''].total.shape == maps[''].total.shape == (4, 4)
    heads_of(layer).hook(remove(1))
    torch.testing.assert_close(layer(windows), blind(windows))


def test_a_single_head_has_no_others():
    layer = SpatialReductionAttention(16, 1).eval()
    with compare_heads(layers_with_heads(layer)) as (outputs, maps), torch.no_grad():
        layer(X)
    assert outputs[''].by_head() == maps[''].by_head() == [None]
