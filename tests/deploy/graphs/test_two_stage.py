"""Mask R-CNN, as a graph, gives the results of mmdet."""

import argparse

import numpy as np
import pytest
import torch
from mmcv.ops import RoIAlign, RoIPool
from mmdet.registry import MODELS
from torch import nn

from mmeffvit.deploy.compare import compare_objects, expect_model
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.two_stage import check, extract
from mmeffvit.errors import UserError
from mmeffvit.utils.quiet import replaced
from tests.deploy import models
from tests.deploy.formats.onnx.test_write import assert_agrees
from tests.deploy.models import MASK_RCNN, smooth_image, tiny


def assert_finds_the_same(model: nn.Module, graph: nn.Module, images: np.ndarray) -> None:
    with torch.no_grad():
        outputs = graph(torch.from_numpy(images))
    found = dict(zip(graph.output_names, (output.numpy() for output in outputs), strict=True))
    for i, expected in enumerate(expect_model(model, images, models.sample_of(model))):
        assert len(expected['scores']) > 0
        assert_agrees(compare_objects(expected, {name: out[i] for name, out in found.items()}))


def test_unused_entries_are_empty():
    found = open_onnx(models.file_for_one_size(MASK_RCNN)).run(
        np.full((1, 3, *models.SIZE), 128, np.float32)
    )
    empty = found['labels'] == -1
    assert empty.any()
    for name in ('boxes', 'scores', 'masks'):
        assert (found[name][empty] == 0).all()
    assert (np.diff(found['scores']) <= 0).all()


@pytest.mark.parametrize(
    'options',
    [
        {'model.roi_head.bbox_head.reg_class_agnostic': True},
        {'model.roi_head.mask_head.class_agnostic': True},
        {'model.test_cfg.rpn.min_bbox_size': 16},
    ],
    ids=['one box for all classes', 'one mask for all classes', 'large regions'],
)
def test_the_graph_finds_what_mmdet_finds(options):
    model = tiny(MASK_RCNN, options)
    assert_finds_the_same(model, make_graph(model), smooth_image((101, 75), batch=2))


def test_without_a_mask_head_the_graph_gives_boxes_only():
    model = tiny(MASK_RCNN)
    del model.roi_head.mask_head
    graph = make_graph(model)
    assert graph.task == 'detection'
    assert graph.output_names == ('boxes', 'scores', 'labels')
    assert_finds_the_same(model, graph, smooth_image((64, 96)))


@pytest.mark.parametrize('finest_scale', [28, 56])
def test_regions_are_assigned_to_levels_as_in_mmdet(finest_scale):
    extractor = MODELS.build(
        dict(
            type='SingleRoIExtractor', out_channels=4, featmap_strides=[4, 8, 16, 32],
            finest_scale=finest_scale,
            roi_layer=dict(type='RoIAlign', output_size=7, sampling_ratio=0),
        )
    )  # fmt: skip
    features = [torch.randn(2, 4, 128 // 2**i, 96 // 2**i) for i in range(4)]
    corners = torch.rand(60, 2) * 200
    sides = 2 ** (torch.rand(60, 1) * 8) * (0.5 + torch.rand(60, 2))
    sides[:4] = finest_scale * 2.0 ** torch.arange(4)[:, None]  # the limits of the levels
    regions = torch.cat([torch.randint(2, (60, 1)).float(), corners, corners + sides], dim=1)
    assert len(extractor.map_roi_levels(regions, 4).unique()) > 2
    torch.testing.assert_close(extract(extractor, features, regions), extractor(features, regions))


def test_an_unsupported_component_is_rejected():
    model = tiny(MASK_RCNN)
    roi_head = model.roi_head
    other = argparse.Namespace(roi_head=roi_head, rpn_head=model.rpn_head)
    check(other)
    with replaced(model.rpn_head, 'use_sigmoid_cls', False), pytest.raises(UserError, match='rpn'):
        check(other)
    soft = dict(roi_head.test_cfg, mask_thr_binary=-1)
    with replaced(roi_head, 'test_cfg', soft), pytest.raises(UserError, match='binary is -1; give'):
        check(other)
    layers = roi_head.mask_roi_extractor.roi_layers
    layers[0] = RoIAlign(output_size=7, pool_mode='max')
    with pytest.raises(UserError, match="pool_mode 'max' cannot be exported; choose avg"):
        check(other)
    layers[0] = RoIPool(output_size=7)
    with pytest.raises(UserError, match='RoIPool cannot be exported; choose RoIAlign'):
        check(other)
    roi_head.bbox_roi_extractor = nn.Identity()
    with pytest.raises(UserError, match='Identity cannot be exported; choose SingleRoIExtractor'):
        check(other)
