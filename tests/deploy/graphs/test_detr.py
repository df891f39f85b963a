"""Deformable DETR, as a graph, gives the results of mmdet."""

import pytest

from mmeffvit.deploy.graphs import make_graph
from mmeffvit.errors import UserError
from tests.configs.models import build
from tests.deploy import models
from tests.deploy.graphs.test_two_stage import assert_finds_the_same


@pytest.mark.parametrize(
    'options',
    [
        {'model.single_head': dict(encoder=[], decoder=[0], attended=8, attention='projected')},
        {'model.with_box_refine': True, 'model.decoder.num_layers': 2},  # of four coordinates
        {'model.positional_encoding.normalize': False, 'model.positional_encoding.offset': 0.0},
    ],
    ids=['projected head in the decoder', 'refined boxes', 'places in cells'],
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
