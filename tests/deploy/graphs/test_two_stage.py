"""Mask R-CNN, as a graph and as a file, gives the results of mmdet."""

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmcv.ops import RoIAlign, RoIPool
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from numpy.typing import NDArray
from torch import nn

from mmeffvit.deploy.compare import compare_objects, expect_model
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import all_nodes
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.metadata import config_metadata
from mmeffvit.deploy.graphs.two_stage import check, extract
from mmeffvit.errors import UserError
from tests.configs.models import build, load
from tests.deploy import models
from tests.deploy.formats.onnx.test_write import assert_agrees
from tests.deploy.models import file_of, smooth_image
from tests.models.parity import randomized

WIDTH, CHANNELS = 16, [8, 16, 24, 32]
TINY = {
    'model.backbone.arch': dict(_delete_=True, channels=CHANNELS, depths=(1, 1, 1, 1)),
    'model.neck': dict(in_channels=CHANNELS, out_channels=WIDTH),
    'model.rpn_head': dict(in_channels=WIDTH, feat_channels=WIDTH),
    'model.roi_head.bbox_roi_extractor.out_channels': WIDTH,
    'model.roi_head.bbox_head': dict(in_channels=WIDTH, fc_out_channels=32),
    'model.roi_head.mask_roi_extractor.out_channels': WIDTH,
    'model.roi_head.mask_head': dict(num_convs=1, in_channels=WIDTH, conv_out_channels=WIDTH),
    'model.test_cfg.rpn': dict(nms_pre=100, max_per_img=60),
    'model.test_cfg.rcnn': dict(score_thr=0.3, max_per_img=30, nms=dict(iou_threshold=0.3)),
}


def tiny(options: dict[str, Any] | None = None) -> nn.Module:
    """The model of the demo with few channels, and with different regions and classes."""
    config = load('maskrcnn_swiftformer_xs_shapes')
    config.merge_from_dict({**TINY, **(options or {})})
    torch.manual_seed(0)
    model = randomized(build(config)).eval()
    head = model.roi_head.bbox_head
    for layer, std in [
        (model.rpn_head.rpn_cls, 0.2), (model.rpn_head.rpn_reg, 0.02),
        (head.fc_cls, 0.5), (head.fc_reg, 0.05), (model.roi_head.mask_head.conv_logits, 0.5),
    ]:  # fmt: skip
        nn.init.normal_(layer.weight, std=std)
    spread_classes(model)
    return model


@torch.no_grad()
def spread_classes(model: nn.Module) -> None:
    """Center and scale the logits on the regions of an image: otherwise all have one class."""
    layer = model.roi_head.bbox_head.fc_cls
    regions = []
    hook = layer.register_forward_hook(lambda _, inputs, __: regions.append(inputs[0]))
    expect_model(model, smooth_image((96, 128)), DetDataSample())
    hook.remove()
    logits = regions[0] @ layer.weight.T
    layer.weight.div_(logits.std(dim=0, keepdim=True).T)
    layer.bias.copy_(-logits.mean(dim=0) / logits.std(dim=0))


def assert_finds_the_same(model: nn.Module, graph: nn.Module, images: np.ndarray) -> None:
    with torch.no_grad():
        outputs = graph(torch.from_numpy(images))
    found = dict(zip(graph.output_names, (output.numpy() for output in outputs), strict=True))
    for i, expected in enumerate(expect_model(model, images, DetDataSample())):
        assert len(expected['scores']) > 0
        assert_agrees(compare_objects(expected, {name: out[i] for name, out in found.items()}))


@pytest.fixture(scope='module')
def model() -> nn.Module:
    return tiny()


def file_for_one_size() -> Path:
    """The model in a file for one image of ``models.SIZE``."""
    model = tiny()
    metadata = config_metadata(load('maskrcnn_swiftformer_xs_shapes'), model, dict(classes=None))
    return file_of('two_stage_fixed', model, metadata, models.FIXED)


@pytest.fixture(scope='module')
def exported() -> Path:
    return file_for_one_size()


def assert_file_agrees(path: Path, model: nn.Module, batches: list[NDArray]) -> None:
    found = open_onnx(path).run(batches[-1])
    assert found['masks'].shape == (len(batches[-1]), 30, 28, 28)
    assert len(set(found['labels'].flat) - {-1}) > 2
    assert found['masks'][found['labels'] >= 0].std() > 0.05
    assert_agrees(models.errors_on(path, model, batches, DetDataSample()))


def test_a_file_has_standard_operators_and_finds_what_mmdet_finds(model, exported):
    import onnx

    assert_file_agrees(exported, model, [smooth_image(models.SIZE)])
    nodes = list(all_nodes(onnx.load(exported)))
    assert {node.domain for node in nodes} == {''}
    assert sum(node.op_type == 'RoiAlign' for node in nodes) == 8  # four levels, boxes and masks


@pytest.mark.slow
@pytest.mark.variant
def test_a_file_finds_what_mmdet_finds_at_every_size(model):
    batches = [smooth_image((96, 128)), smooth_image((33, 64)), smooth_image((131, 75), batch=2)]
    assert_file_agrees(file_of('two_stage', model), model, batches)


def test_unused_entries_are_empty(exported):
    found = open_onnx(exported).run(np.full((1, 3, *models.SIZE), 128, np.float32))
    empty = found['labels'] == -1
    assert empty.any()
    for name in ('boxes', 'scores', 'masks'):
        assert (found[name][empty] == 0).all()
    assert (np.diff(found['scores']) <= 0).all()


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'model.roi_head.bbox_head.reg_class_agnostic': True},
        {'model.roi_head.mask_head.class_agnostic': True},
        {'model.test_cfg.rpn.min_bbox_size': 16},
    ],
    ids=['default', 'one box for all classes', 'one mask for all classes', 'large regions'],
)
def test_the_graph_finds_what_mmdet_finds(options):
    model = tiny(options)
    assert_finds_the_same(model, make_graph(model), smooth_image((101, 75), batch=2))


def test_without_a_mask_head_the_graph_gives_boxes_only():
    model = tiny()
    del model.roi_head.mask_head
    graph = make_graph(model)
    assert graph.task == 'detection'
    assert graph.output_names == ('boxes', 'scores', 'labels')
    assert_finds_the_same(model, graph, smooth_image((64, 96)))


@pytest.mark.parametrize('finest_scale', [28, 56])
def test_regions_are_assigned_to_levels_as_in_mmdet(finest_scale):
    torch.manual_seed(0)
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


def test_an_unsupported_component_is_rejected(model):
    roi_head = copy.deepcopy(model.roi_head)
    other = argparse.Namespace(roi_head=roi_head)
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
