"""Recorded attention maps equal a naive recomputation, and recording has no side effects."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmeffvit.analysis.attention import Canvas, attention_layers, record_attention
from mmeffvit.deploy import fuse
from mmeffvit.errors import UserError
from mmeffvit.models import EfficientFormerV2, MobileViTv2, SHViT, SwiftFormer
from mmeffvit.models.efficientformerv2.attention import TalkingHeadsAttention
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention
from tests.models.detection.test_single_head_deformable import randomize

CASES = [
    (SwiftFormer, dict(arch='xs'), 4),
    (SHViT, dict(arch='s1'), 9),
    (MobileViTv2, dict(arch='050'), 9),
    (EfficientFormerV2, dict(arch='s0'), 5),
    (EfficientFormerV2, dict(arch='s0', attention='mobile', downsampling='mobile'), 5),
]


def read(layer: nn.Module, *inputs: torch.Tensor, canvas: Canvas) -> dict[str, torch.Tensor]:
    """The arrays of a single layer, whose own name is ''."""
    with record_attention(layer, canvas) as readings:
        layer(*inputs)
    return readings[''].arrays


@torch.no_grad()
def test_context_scores_are_the_softmax_of_every_position_over_the_patches():
    layer = randomize(SeparableSelfAttention(8)).eval()
    x = torch.randn(1, 8, 6, 10)
    arrays = read(layer, x, canvas=Canvas(48, 80))
    logits = layer.qkv(x)[0, 0]
    expected = torch.zeros(6, 10)
    for row in range(2):
        for column in range(2):
            own = logits[row::2, column::2]
            expected[row::2, column::2] = own.exp() / own.exp().sum()
    torch.testing.assert_close(arrays['folded'], expected)
    assert arrays['scores'].shape == (4, 3, 5)
    torch.testing.assert_close(arrays['scores'].sum(dim=(1, 2)), torch.ones(4))


@torch.no_grad()
def test_global_query_weights_give_the_global_query():
    layer = randomize(EfficientAdditiveAttention(8)).eval()
    x = torch.randn(1, 8, 5, 7)
    seen = {}
    layer.proj.register_forward_hook(lambda module, inputs, output: seen.update(x=inputs[0]))
    weights = read(layer, x, canvas=Canvas(5 * 8, 7 * 8))['weights']
    torch.testing.assert_close(weights.square().sum(), torch.tensor(1.0))
    query, key = (F.normalize(conv(x), dim=1) for conv in (layer.query, layer.key))
    # the layer projects g * k, with g from the recorded weights
    torch.testing.assert_close((weights * query).sum(dim=(2, 3), keepdim=True) * key, seen['x'])


@torch.no_grad()
def test_the_rows_of_all_query_points_of_shvit_give_the_output_of_its_layer():
    layer = randomize(SingleHeadSelfAttention(12, attended=8)).eval()
    x = torch.randn(1, 12, 3, 4)
    seen = {}
    layer.proj.register_forward_hook(lambda module, inputs, output: seen.update(x=inputs[0]))
    rows = [
        read(layer, x, canvas=Canvas(96, 128, (32 * column + 5, 32 * row + 31)))['attention']
        for row in range(3)
        for column in range(4)
    ]
    attention = torch.stack(rows).flatten(1)  # (queries, keys)
    torch.testing.assert_close(attention.sum(dim=1), torch.ones(12))
    value = layer.qkv(layer.norm(x[:, :8]))[0, -8:].flatten(1)
    mixed = (value @ attention.T).view(1, 8, 3, 4)
    torch.testing.assert_close(F.relu(torch.cat([mixed, x[:, 8:]], dim=1)), seen['x'])
    mean = read(layer, x, canvas=Canvas(96, 128))['attention']
    torch.testing.assert_close(mean.flatten(), attention.mean(dim=0))


@pytest.mark.parametrize(('stride', 'mix_heads'), [(1, True), (2, False)])
@torch.no_grad()
def test_the_heads_of_all_query_points_give_the_output_of_talking_heads(stride, mix_heads):
    layer = randomize(TalkingHeadsAttention(2, (7, 7), stride=stride, mix_heads=mix_heads)).eval()
    rows, columns = -(-3 // stride), -(-5 // stride)
    query = torch.randn(1, 8, rows, columns)
    key, value = torch.randn(1, 8, 3, 5), torch.randn(1, 6, 3, 5)
    cell = 16 * stride
    read_all = [
        read(layer, query, key, value, canvas=Canvas(3 * 16, 5 * 16, (x, y)))
        for y in range(1, 48, cell)
        for x in range(1, 80, cell)
    ]
    attention, mixed = (
        torch.stack([arrays[name] for arrays in read_all], dim=1).flatten(2)
        for name in ('attention', 'mixed')
    )  # (heads, queries, keys)
    assert attention.shape == (2, rows * columns, 15)
    torch.testing.assert_close(attention.sum(dim=2), torch.ones(2, rows * columns))
    output = torch.einsum('hqk,hck->hcq', mixed, value[0].view(2, 3, 15))
    torch.testing.assert_close(output.reshape(1, 6, rows, columns), layer(query, key, value))
    mean = read(layer, query, key, value, canvas=Canvas(48, 80))['attention']
    torch.testing.assert_close(mean.flatten(1), attention.mean(dim=1))


@pytest.mark.parametrize('competition', [True, False])
@torch.no_grad()
def test_weights_with_and_without_competition_give_the_output_of_mobile_attention(competition):
    layer = MobileAttention(8, 6, 2, competition=competition).eval()
    query, key, value = (torch.randn(1, width, 3, 4) for width in (8, 8, 6))
    read_all = [
        read(layer, query, key, value, canvas=Canvas(48, 64, (16 * x, 16 * y)))
        for y in range(3)
        for x in range(4)
    ]
    name = 'competed' if competition else 'linear'
    weights = torch.stack([a[name] for a in read_all], dim=1).flatten(2)  # (heads, queries, keys)
    output = torch.einsum('hqk,hck->hcq', weights, value.view(2, 3, 12)) / 12
    if competition:
        _, gate = layer.compete(*(m.view(1, 2, 4, 12).sigmoid() for m in (query, key)))
        output = output * gate[0, :, None]
    torch.testing.assert_close(output.reshape(value.shape), layer(query, key, value))
    arrays = read(layer, query, key, value, canvas=Canvas(48, 64))
    linear = torch.stack([a['linear'] for a in read_all]).mean(dim=0)
    torch.testing.assert_close(arrays['linear'], linear)
    assert ('competition' in arrays) == competition
    for name in arrays.keys() - {'competed'}:
        torch.testing.assert_close(arrays[name].mean(dim=(1, 2)), torch.ones(2))


@torch.no_grad()
def test_competition_weights_are_the_softmax_over_tokens_of_the_conserved_outgoing_flow():
    query, key, value = (torch.randn(1, width, 2, 3) for width in (8, 8, 4))
    arrays = read(MobileAttention(8, 8, 2).eval(), query, key, value, canvas=Canvas(32, 48))
    queries, keys = (m.view(2, 4, 6).sigmoid() for m in (query, key))  # (heads, channels, tokens)
    incoming = torch.einsum('hdn,dn->hn', queries, keys.sum(dim=0))
    conserved = torch.einsum('hdn,dn->hn', keys, (queries / incoming[:, None]).sum(dim=0))
    expected = conserved.clamp(-1, 1).softmax(dim=1) * 6
    # the layer adds 1e-6 to both factors of its inner products
    torch.testing.assert_close(arrays['competition'].flatten(1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('family', 'arguments', 'number'), CASES)
@torch.no_grad()
def test_recording_changes_no_output_and_leaves_no_hook(family, arguments, number):
    model = family(**arguments).eval()
    image = torch.randn(1, 3, 70, 101)
    before = model(image)
    with record_attention(model, Canvas(70, 101, (50, 20))) as readings:
        during = model(image)
    after = model(image)
    assert list(readings) == list(attention_layers(model))
    assert len(readings) == number
    for expected, *maps in zip(before, during, after, strict=True):
        assert all(torch.equal(expected, m) for m in maps)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    for reading in readings.values():
        for array in (*reading.maps.values(), *reading.arrays.values()):
            assert array.shape[-2:] in (reading.grid, (reading.grid[0] // 2, reading.grid[1] // 2))
            assert array.isfinite().all()
            assert array.device.type == 'cpu'
            assert not array.requires_grad


@torch.no_grad()
@pytest.mark.parametrize(('family', 'options', '_'), CASES)
def test_a_fused_backbone_has_the_maps_of_the_original(family, options, _):
    model = randomize(family(**options)).eval().double()
    image, canvas = torch.randn(1, 3, 64, 96).double(), Canvas(64, 96)
    readings = []
    for each in (model, fuse(model)):
        with record_attention(each, canvas) as recorded:
            each(image)
        readings.append(recorded)
    plain, fused = readings
    assert list(plain) == list(fused)
    for name, reading in plain.items():
        torch.testing.assert_close(fused[name].arrays, reading.arrays, rtol=1e-3, atol=1e-5)


def test_hooks_are_gone_after_an_error():
    model = SwiftFormer('xs').eval()
    with pytest.raises(ValueError, match='32'), record_attention(model, Canvas(8, 8)):
        model(torch.zeros(1, 3, 8, 8))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_train_mode_and_batches_are_rejected():
    layer, x = SeparableSelfAttention(8), torch.zeros(2, 8, 4, 4)
    with pytest.raises(ValueError, match='train mode'), record_attention(layer, Canvas(32, 32)):
        layer(x)
    layer.eval()
    with pytest.raises(ValueError, match='2 images'), record_attention(layer, Canvas(32, 32)):
        layer(x)


def test_layers_are_selected_by_a_part_of_their_name():
    model = nn.ModuleDict(dict(backbone=EfficientFormerV2('s0')))
    names = list(attention_layers(model))
    assert names[0] == 'backbone.stages.2.blocks.4.attention.mixer'
    stage = [name for name in names if name.startswith('backbone.stages.3')]
    assert list(attention_layers(model, ['stages.3'])) == stage
    assert list(attention_layers(model, ['stages.*.blocks.3', 'downsample'])) == [
        'backbone.stages.3.downsample.attention.mixer',
        'backbone.stages.3.blocks.3.attention.mixer',
    ]
    with pytest.raises(UserError, match=r"'stages.1'.*backbone.stages.2.blocks.4"):
        attention_layers(model, ['stages.1'])
    with pytest.raises(UserError, match='Linear'):
        attention_layers(nn.Linear(1, 1))
