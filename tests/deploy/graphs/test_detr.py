"""Deformable DETR, as a graph and as a file, gives the results of mmdet."""

from typing import Any

import numpy as np
import pytest
import torch
from mmcv.ops import MultiScaleDeformableAttention
from mmdet.structures import DetDataSample
from torch import nn

from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import all_nodes
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.deformable_attention import (
    Levels,
    TracedDeformableAttention,
    sample_levels,
)
from mmeffvit.deploy.graphs.detr import positional_encoding
from mmeffvit.errors import UserError
from tests.configs.models import build, load
from tests.deploy import models
from tests.deploy.formats.onnx.test_write import assert_agrees
from tests.deploy.graphs.test_two_stage import assert_finds_the_same
from tests.deploy.models import file_of, smooth_image
from tests.models.parity import randomized

LEAF = 'deformabledetr_swiftformer_l1_single_head'
WIDTH, CHANNELS = 32, [8, 16, 24, 32]
ATTENTION = dict(embed_dims=WIDTH)
FEED_FORWARD = dict(embed_dims=WIDTH, feedforward_channels=2 * WIDTH)
TINY = {
    'model.backbone.arch': dict(_delete_=True, channels=CHANNELS, depths=(1, 1, 1, 1)),
    # four channels per group: a map of one cell has more than one value to normalize
    'model.neck': dict(in_channels=CHANNELS[1:], out_channels=WIDTH, norm_cfg=dict(num_groups=8)),
    'model.num_queries': 40,
    'model.test_cfg.max_per_img': 20,
    'model.positional_encoding.num_feats': WIDTH // 2,
    'model.single_head': dict(encoder=[0], decoder=[], attended=8),
    'model.encoder': dict(
        num_layers=1, layer_cfg=dict(self_attn_cfg=ATTENTION, ffn_cfg=FEED_FORWARD)
    ),
    'model.decoder': dict(
        num_layers=1,
        layer_cfg=dict(self_attn_cfg=ATTENTION, cross_attn_cfg=ATTENTION, ffn_cfg=FEED_FORWARD),
    ),
    'model.bbox_head': dict(num_classes=5, embed_dims=WIDTH),
}


def tiny(options: dict[str, Any] | None = None) -> nn.Module:
    """One encoder layer with a single head, one decoder layer, and random queries."""
    config = load(LEAF)
    config.merge_from_dict({**TINY, **(options or {})})
    torch.manual_seed(0)
    model = randomized(build(config)).eval()
    for name, module in model.named_modules():
        if name.endswith(('sampling_offsets', 'attention_weights')):
            nn.init.normal_(module.weight, std=0.2)
        if '_branches.' in name and isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.3)
    nn.init.normal_(model.reference_points_fc.weight, std=0.5)
    nn.init.normal_(model.query_embedding.weight)
    nn.init.normal_(model.level_embed)  # only initialized at the start of training
    return model


@pytest.fixture(scope='module')
def model() -> nn.Module:
    return tiny()


@pytest.mark.slow
@pytest.mark.variant
def test_a_file_finds_what_mmdet_finds_at_every_size(model):
    exported = file_of('detr', model)
    batches = [smooth_image((96, 128)), smooth_image((131, 75), batch=2), smooth_image((33, 64))]
    found = open_onnx(exported).run(batches[1])
    assert found['boxes'].shape == (2, 20, 4)
    assert len(np.unique(found['labels'])) > 2
    assert found['boxes'].std(axis=1).min() > 1  # in pixels: the queries are at different positions
    assert_agrees(models.errors_on(exported, model, batches, DetDataSample()))


def test_a_file_has_standard_operators_and_finds_what_mmdet_finds(model):
    import onnx

    exported = file_of('detr_fixed', model, options=models.FIXED)
    images = [smooth_image(models.SIZE)]
    assert_agrees(models.errors_on(exported, model, images, DetDataSample()))
    nodes = list(all_nodes(onnx.load(exported)))
    assert {node.domain for node in nodes} == {''}
    assert sum(node.op_type == 'GridSample' for node in nodes) == 8  # four levels, two attentions


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'model.single_head': dict(encoder=[], decoder=[0], attended=8, attention='projected')},
        {'model.with_box_refine': True},
        {'model.positional_encoding.normalize': False, 'model.positional_encoding.offset': 0.0},
    ],
    ids=['default', 'projected head in the decoder', 'refined boxes', 'places in cells'],
)
def test_the_graph_finds_what_mmdet_finds(options):
    model = tiny(options)
    assert_finds_the_same(model, make_graph(model), smooth_image((101, 75), batch=2))


@pytest.mark.parametrize('coordinates', [2, 4])
def test_traced_attention_is_mmcvs(coordinates):
    torch.manual_seed(0)
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

    torch.manual_seed(0)
    value, weights = torch.randn(2, 26, 3, 4), torch.rand(2, 5, 3, 2, 4)
    points = torch.rand(2, 5, 3, 2, 4, 2) * 1.4 - 0.2  # some are outside
    planes = value.permute(0, 2, 3, 1).flatten(0, 1)
    grids, heads_first = 2 * points - 1, (0, 2, 3, 1, 4)
    grids = grids.permute(*heads_first, 5).flatten(0, 1)
    found = sample_levels(planes, [4, 5, 2, 3], grids, weights.permute(heads_first).flatten(0, 1))
    sizes = torch.tensor([(4, 5), (2, 3)])
    expected = multi_scale_deformable_attn_pytorch(value, sizes, points, weights)
    torch.testing.assert_close(found.view(2, 12, 5).mT, expected)


def test_the_positional_encoding_equals_mmdets(model):
    feature = torch.zeros(1, WIDTH, 7, 4)
    expected = model.positional_encoding(None, input=feature)[0].flatten(1).T
    found = positional_encoding(model.positional_encoding, (7, 4), feature)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'model.data_preprocessor.pad_size_divisor': 32}, 'pad_size_divisor is 32'),
        ({'model.as_two_stage': True}, 'choose as_two_stage=False'),
        ({'model.bbox_head.loss_cls': dict(type='CrossEntropyLoss', _delete_=True)}, 'use_sigmoid'),
    ],
)
def test_an_unsupported_model_is_rejected(options, message):
    config = load(LEAF)
    config.merge_from_dict({**TINY, **options})
    with pytest.raises(UserError, match=message):
        make_graph(build(config))
