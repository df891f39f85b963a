"""Single-head deformable attention against its equation, and its use in the detector."""

import pytest
import torch
from mmcv.ops import MultiScaleDeformableAttention
from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from mmeffvit.models.detection import (
    ProjectedDeformableAttention,
    SingleHeadDeformableDETR,
    SplitDeformableAttention,
)
from mmeffvit.models.detection.single_head_deformable import SingleHeadLayers, initial_offsets
from mmeffvit.registry import MODELS

LEVELS = ((5, 3), (2, 4))  # height and width
CELLS = sum(height * width for height, width in LEVELS)
ATTENTIONS = (ProjectedDeformableAttention, SplitDeformableAttention)


def randomize(module: nn.Module) -> nn.Module:
    """Randomize all weights: with the initial ones, the offsets do not depend on the query."""
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return module


def inputs(channels: int, queries: int) -> dict[str, Tensor]:
    shapes = torch.tensor(LEVELS)
    generator = torch.Generator().manual_seed(0)

    def random(*sizes: int) -> Tensor:
        return torch.rand(sizes, generator=generator, dtype=torch.float64)

    return dict(
        query=random(2, queries, channels),
        value=random(2, CELLS, channels),
        query_pos=random(2, queries, channels),
        reference_points=random(2, queries, len(LEVELS), 2),
        key_padding_mask=random(2, CELLS) < 0.2,
        spatial_shapes=shapes,
        level_start_index=torch.tensor([0, 15]),
    )


@torch.no_grad()
@pytest.mark.parametrize('value', [True, False])
def test_split_attention_is_its_equation(value):
    module = SplitDeformableAttention(16, 8, num_levels=2, num_points=3)
    module = randomize(module.double()).eval()
    given = inputs(16, 7 if value else CELLS)
    given['value'] = given['value'] if value else None  # self-attention
    query, attention = given['query'], module.attention
    located = query + given['query_pos']
    heads = (*query.shape[:2], 1, 2, 3)  # one head, levels, points
    offsets = attention.sampling_offsets(located).view(*heads, 2)
    weights = attention.attention_weights(located).softmax(dim=-1).view(heads)
    attended = attention.value_proj((given['value'] if value else query)[..., :8])
    attended[given['key_padding_mask']] = 0
    sides = torch.tensor([[width, height] for height, width in LEVELS])[:, None]
    places = given['reference_points'][:, :, None, :, None] + offsets / sides
    found = multi_scale_deformable_attn_pytorch(
        attended.unsqueeze(2), given['spatial_shapes'], places, weights
    )
    expected = query + module.output_proj(torch.cat([found, query[..., 8:]], dim=-1))
    torch.testing.assert_close(module(**given), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('attention', ATTENTIONS)
def test_every_weight_gets_a_gradient_and_dropout_is_for_training_only(attention):
    module = randomize(attention(16, 8, num_levels=2, num_points=3, dropout=0.5).double())
    given = inputs(16, 7)
    module(**given).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in module.parameters())
    kept = module(**given) != given['query']
    assert 0.2 < kept.double().mean() < 0.8
    assert (module.eval()(**given) != given['query']).all()


@pytest.mark.filterwarnings('ignore:.*power of 2')  # 1 / 49 * 49 is below 1
def test_the_head_has_exactly_the_attended_channels():
    for attended in range(1, 50):
        module = ProjectedDeformableAttention(49, attended)
        assert module.value_proj.out_features == module.output_proj.in_features == attended


def test_initial_points_cover_four_directions_and_all_distances():
    offsets = initial_offsets(4, 4)
    first = torch.tensor([[1.0, 0], [0, 2], [-3, 0], [0, -4]])
    torch.testing.assert_close(offsets[0], first, rtol=0, atol=1e-5)
    second = torch.tensor([[0.0, 1], [-2, 0], [0, -3], [4, 0]])
    torch.testing.assert_close(offsets[1], second, rtol=0, atol=1e-5)
    points = {tuple(point) for point in offsets.flatten(0, 1).round().int().tolist()}
    sides = ((1, 0), (-1, 0), (0, 1), (0, -1))
    assert points == {(far * x, far * y) for x, y in sides for far in (1, 2, 3, 4)}


def small_detector(**single_head: object) -> SingleHeadDeformableDETR:
    """Three encoder and four decoder layers of 32 channels, on two levels."""
    init_default_scope('mmdet')  # for modules that mmdet's modules build
    deformable = dict(embed_dims=32, num_heads=4, num_levels=2, num_points=3, dropout=0.2)
    ffn = dict(embed_dims=32, feedforward_channels=64, ffn_drop=0.0)
    config = ConfigDict(
        type='mmeffvit.SingleHeadDeformableDETR',
        single_head=single_head,
        num_queries=5,
        num_feature_levels=2,
        backbone=dict(type='mmdet.ResNet', depth=18, num_stages=1, strides=(1,), dilations=(1,),
                      out_indices=(0,), base_channels=8),
        neck=dict(type='mmdet.ChannelMapper', in_channels=[8], out_channels=32, num_outs=2),
        encoder=dict(num_layers=3, layer_cfg=dict(self_attn_cfg=deformable, ffn_cfg=ffn)),
        decoder=dict(
            num_layers=4,
            layer_cfg=dict(
                self_attn_cfg=dict(embed_dims=32, num_heads=4),
                cross_attn_cfg=deformable,
                ffn_cfg=ffn,
            ),
            post_norm_cfg=None,
        ),
        positional_encoding=dict(num_feats=16, normalize=True),
        bbox_head=dict(type='mmdet.DeformableDETRHead', num_classes=3, embed_dims=32,
                       loss_cls=dict(type='mmdet.FocalLoss')),
    )  # fmt: skip
    return MODELS.build(config)


@pytest.mark.parametrize('attention', ATTENTIONS)
def test_the_chosen_layers_alone_are_replaced_and_keep_their_initial_points(attention):
    name = attention.__name__.removesuffix('DeformableAttention').lower()
    detector = small_detector(
        encoder=[0, 2], decoder=[3], attended=8, attention=name, ffn_channels=40
    )
    stock, layers = MultiScaleDeformableAttention, [*detector.encoder.layers]
    assert [type(layer.self_attn) for layer in layers] == [attention, stock, attention]
    layers += detector.decoder.layers
    assert [type(layer.cross_attn) for layer in layers[3:]] == [stock] * 3 + [attention]
    assert [layer.ffn.feedforward_channels for layer in layers] == [40, 64, 40, 64, 64, 64, 40]
    randomize(detector.encoder)
    detector.init_weights()
    replaced = detector.encoder.layers[2].self_attn
    module = getattr(replaced, 'attention', replaced)
    assert (replaced.dropout.p, module.value_proj.out_features) == (0.2, 8)
    assert (module.num_levels, module.num_points) == (2, 3)
    assert torch.equal(module.sampling_offsets.bias.view(2, 3, 2), initial_offsets(2, 3))
    for parameter in (
        module.sampling_offsets.weight, module.attention_weights.weight, module.value_proj.bias,
        replaced.output_proj.bias,
    ):  # fmt: skip
        assert not parameter.any()


def test_without_a_choice_the_layers_are_those_of_the_paper():
    chosen = SingleHeadLayers()
    assert (chosen.encoder, chosen.decoder, chosen.attended) == ((1, 2, 3), (1, 2, 3), 64)
    assert (chosen.attention, chosen.ffn_channels) == ('split', None)


@pytest.mark.parametrize(
    ('choice', 'said'),
    [
        (dict(encoder=[3], decoder=[]), r'head.encoder is \(3,\); choose layers from 0 to 2'),
        (dict(encoder=[], decoder=[-1]), r'single_head.decoder is \(-1,\)'),
        (dict(encoder=[1, 1], decoder=[]), 'each once'),
        (dict(attention='dense'), "attention is 'dense'; choose one of 'split', 'projected'"),
        (dict(ffn_channels=0), 'ffn_channels is 0'),
        (dict(encoder=[1], decoder=[1], attended=33), 'attended is 33; choose 1 to 32'),
    ],
)
def test_an_invalid_choice_is_reported(choice, said):
    with pytest.raises(ValueError, match=said):
        small_detector(**choice)
