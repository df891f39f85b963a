"""Deformable DETR, as a graph, gives the results of mmdet."""

import pytest
import torch
from mmcv.ops import MultiScaleDeformableAttention
from torch import nn

from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.deformable_attention import (
    Levels,
    TracedDeformableAttention,
    sample_levels,
)
from mmeffvit.errors import UserError
from tests.configs.models import build
from tests.deploy import models
from tests.deploy.graphs.test_two_stage import assert_finds_the_same
from tests.models.parity import randomized


@pytest.mark.parametrize(
    'options',
    [
        {'model.single_head': dict(encoder=[], decoder=[0], attended=8, attention='projected')},
        {'model.with_box_refine': True, 'model.decoder.num_layers': 2},  # of four coordinates
        {'model.positional_encoding.normalize': False, 'model.positional_encoding.offset': 0.0},
        {'model.test_cfg': dict(_delete_=True)},
    ],
    ids=['projected head in the decoder', 'refined boxes', 'places in cells', 'all queries'],
)
def test_the_graph_finds_what_mmdet_finds(options):
    model = models.tiny(models.DETR, options)
    assert_finds_the_same(model, make_graph(model), models.smooth_image((101, 75), batch=2))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'model.data_preprocessor.pad_size_divisor': 32}, 'pad_size_divisor is 32'),
        ({'model.as_two_stage': True}, 'choose as_two_stage=False'),
        ({'model.bbox_head.loss_cls': dict(type='CrossEntropyLoss', _delete_=True)}, 'use_sigmoid'),
    ],
)
def test_an_unsupported_model_is_rejected(options, message):
    with pytest.raises(UserError, match=message):
        make_graph(build(models.config_of(models.DETR, options)))


@pytest.mark.parametrize('coordinates', [2, 4])
def test_traced_attention_is_mmcvs(coordinates):
    attention = randomized(MultiScaleDeformableAttention(16, 2, 3, 4, batch_first=True)).eval()
    nn.init.normal_(attention.sampling_offsets.weight)
    features = [torch.randn(2, 16, *size) for size in [(9, 5), (5, 3), (3, 2)]]
    levels = Levels.of(features)
    value = torch.cat([feature.flatten(2) for feature in features], dim=2).transpose(1, 2)
    inputs = dict(
        query=torch.randn(2, 7, 16), value=value, query_pos=torch.randn(2, 7, 16),
        reference_points=torch.rand(2, 7, 3, coordinates),
    )  # fmt: skip
    expected = attention(
        **inputs, spatial_shapes=torch.tensor(levels.sizes), level_start_index=None
    )
    found = TracedDeformableAttention(attention)(**inputs, spatial_shapes=levels)
    torch.testing.assert_close(found, expected)


def test_the_operator_equals_the_function_it_replaces():
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    value, weights = torch.randn(2, 26, 3, 4), torch.rand(2, 5, 3, 2, 4)
    points = torch.rand(2, 5, 3, 2, 4, 2) * 1.4 - 0.2  # some are outside
    planes = value.permute(0, 2, 3, 1).flatten(0, 1)
    grids, heads_first = 2 * points - 1, (0, 2, 3, 1, 4)
    grids = grids.permute(*heads_first, 5).flatten(0, 1)
    found = sample_levels(planes, [4, 5, 2, 3], grids, weights.permute(heads_first).flatten(0, 1))
    sizes = torch.tensor([(4, 5), (2, 3)])
    expected = multi_scale_deformable_attn_pytorch(value, sizes, points, weights)
    torch.testing.assert_close(found.view(2, 12, 5).mT, expected)
