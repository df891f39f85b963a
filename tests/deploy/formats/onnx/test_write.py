"""Exported models give the outputs of the models of mmdet and mmseg."""

import json
from functools import partial

import numpy as np
import onnx
import onnx_ir
import pytest
import torch

from mmeffvit.deploy.agreement import Measure
from mmeffvit.deploy.compare import compare, expect_maps, expect_model, run_graph
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import (
    ExportOptions,
    export_backbone,
    export_graph,
    trace,
)
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.base import Graph, Preprocessing
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.errors import UserError
from mmeffvit.registry import MODELS
from tests.deploy import models, tiny
from tests.models.parity import randomized
from tests.variants import sampled

DETECTOR, SEGMENTOR = 'retinanet_swiftformer_l1', 'segformer_swiftformer_xs_ade20k'
FAMILIES = {
    'SwiftFormer': dict(arch=dict(channels=(8, 16, 24, 32), depths=(1, 1, 1, 1))),
    'SHViT': dict(arch=dict(channels=(32, 48, 64), depths=(1, 1, 1), attended=(0, 16, 16))),
    'MobileViTv2': dict(arch='050', out_indices=(2,)),
    'EfficientFormerV2': dict(arch='s0', out_indices=(1, 2)),
    'DeiT': dict(arch=dict(channels=16, heads=2, depths=(1,) * 4), out_indices=(1, 3)),
    'PVTv2': dict(arch=dict(channels=(8, 8, 20, 16), depths=(1,) * 4, expansions=(2,) * 4)),
}


# of four levels, for boxes and masks or in two attentions
SAMPLERS = {models.MASK_RCNN: 'RoiAlign', models.DETR: 'GridSample'}


class Normed(Graph):
    task, output_names = 'features', ('normed',)

    def results(self, x: torch.Tensor, size: tuple[int, int]) -> tuple[torch.Tensor, ...]:
        return (self.network(x.repeat(1, 2, 1, 1)),)


def assert_agrees(errors: list[Measure]) -> None:
    assert errors
    assert all(error.agrees for error in errors), '; '.join(map(str, errors))


@pytest.mark.parametrize(
    'config_name',
    sampled(
        sorted({*models.OPTIONS, *models.SPARSE} - {DETECTOR, SEGMENTOR}),
        ('rtmdet_swiftformer_xs', 'deeplabv3_mobilevitv2_050_ade20k', *models.SPARSE),
    ),
)  # fmt: skip
def test_a_file_with_a_fixed_size_gives_the_results_of_the_original(config_name):
    model = models.tiny(config_name)
    path = models.file_for_one_size(config_name)
    images = models.smooth_image(models.SIZE)
    found = open_onnx(path).run(images)
    if 'label_map' in found:
        assert len(np.unique(found['label_map'])) > 1
    else:
        assert (found['scores'][:, :5] > found['scores'][:, 5:10]).all()  # something is found
        assert len(set(found['labels'].flat) - {-1}) > 2
        assert found['boxes'].std(axis=1).min() > 1  # in pixels
    if 'masks' in found:
        assert found['masks'][found['labels'] >= 0].std() > 0.05
    assert_agrees(models.errors_on(path, model, [images]))
    nodes = list(onnx_ir.load(path).graph.all_nodes())
    assert {node.domain for node in nodes} == {''}
    sampler = SAMPLERS.get(config_name)
    assert sampler is None or sum(node.op_type == sampler for node in nodes) == 8


@pytest.mark.parametrize('config_name', ['ssdlite_mobilevitv2_050', 'gflite_swiftformer_xs'])
def test_a_graph_that_is_not_exported_gives_the_results_of_the_original(config_name):
    model = models.tiny(config_name)
    expect = partial(expect_model, model, sample=models.sample_of(model))
    run = partial(run_graph, make_graph(model))
    assert_agrees(compare(run, expect, [models.smooth_image(models.SIZE)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    'config_name',
    sampled([DETECTOR, SEGMENTOR, 'ssdlite_mobilevitv2_050', *models.SPARSE], [DETECTOR]),
)
def test_a_file_for_any_size_gives_the_results_of_the_original(config_name):
    model = models.tiny(config_name)
    batches = [
        models.smooth_image((96, 128)),
        models.smooth_image((131, 75), batch=2),
        models.smooth_image((33, 64)),
    ]
    path = models.file_for_any_size(config_name)
    assert_agrees(models.errors_on(path, model, batches))


def test_a_file_has_standard_operators_and_describes_itself():
    model = onnx.load(models.file_for_any_size(DETECTOR))
    assert {node.domain for node in onnx_ir.from_proto(model).graph.all_nodes()} == {''}
    assert not model.functions
    assert [value.name for value in model.graph.output] == ['boxes', 'scores', 'labels']
    sides = model.graph.input[0].type.tensor_type.shape.dim
    assert [side.dim_param or side.dim_value for side in sides] == ['batch', 3, 'height', 'width']
    said = {item.key: item.value for item in model.metadata_props}
    assert said['task'] == 'detection'
    assert json.loads(said['classes']) == list(models.CLASSES)
    assert json.loads(said['mean']) == pytest.approx([123.675, 116.28, 103.53])
    assert json.loads(said['resize'])['scale'] == [1333, 800]
    assert said['config'] == 'retinanet_swiftformer_l1.py'
    assert float(said['score_threshold']) == 0.05
    assert said['size_divisor'] == '32'
    assert '/work/' not in str(model.graph)  # nor the path it was written from


@pytest.mark.parametrize('family', sampled(sorted(FAMILIES), ('DeiT', 'EfficientFormerV2')))
def test_a_backbone_gives_its_maps_named_after_their_strides(family, tmp_path):
    backbone = randomized(MODELS.build(dict(type=family, **FAMILIES[family])))
    path = export_backbone(backbone, tmp_path / 'maps.onnx', (65, 96), batch=1)
    images = models.smooth_image((65, 96))
    names = [f'stride_{stride}' for stride in backbone.strides]
    if family == 'DeiT':  # of one stride
        names = ['stride_16_stage_1', 'stride_16_stage_3']
    assert list(open_onnx(path).run(images)) == names
    expect = partial(expect_maps, BackboneGraph(backbone), backbone)
    assert_agrees(compare(open_onnx(path).run, expect, [images]))


@pytest.mark.variant
def test_matrices_of_position_biases_are_resized_to_any_size(tmp_path):
    arch = dict(type='EfficientFormerV2', arch='s0', out_indices=(2,), resize_matrix=True)
    backbone = randomized(MODELS.build(arch))
    path = export_backbone(backbone, tmp_path / 'maps.onnx', batch=1)
    expect = partial(expect_maps, BackboneGraph(backbone), backbone)
    batches = [models.smooth_image((65, 96)), models.smooth_image((128, 64))]
    assert_agrees(compare(open_onnx(path).run, expect, batches))


@pytest.mark.parametrize('family', sampled(FAMILIES, ('SHViT', 'EfficientFormerV2')))
def test_a_backbone_with_a_fixed_size_has_no_superfluous_steps(family, tmp_path):
    backbone = MODELS.build(dict(type=family, **FAMILIES[family]))
    path = export_backbone(
        backbone, tmp_path / 'maps.onnx', (64, 96), batch=1, preprocessing=Preprocessing()
    )
    nodes = list(onnx_ir.load(path).graph.all_nodes())
    names = [node.op_type for node in nodes]
    assert not {'Sub', 'Div'} & set(names)  # nothing to normalize
    # even maps are unchanged; only EfficientFormerV2 resizes, from attention and a convolution
    assert ('Resize' in names) == (family == 'EfficientFormerV2')
    for node in nodes:
        if node.op_type == 'Resize':
            total = node.inputs[0].producer()
            terms = {term.producer().op_type for term in total.inputs}
            assert (total.op_type, terms) == ('Add', {'Conv', 'Reshape'})


@pytest.mark.parametrize('factors', [True, False])
def test_a_group_norm_is_exported_with_its_weights(factors, tmp_path):
    norm = torch.nn.GroupNorm(2, 6, affine=factors)
    if factors:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    path = export_graph(Normed(norm, Preprocessing()), tmp_path / 'norm.onnx')
    images = models.smooth_image((33, 40), batch=2)
    (found,) = open_onnx(path).run(images).values()
    expected = norm(torch.from_numpy(images).repeat(1, 2, 1, 1)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    kinds = [node.op_type for node in onnx_ir.load(path).graph.all_nodes()]
    assert [kinds.count(kind) for kind in ('Mul', 'Add', 'CastLike')] == [1, 1, 0]


def test_a_model_without_a_graph_is_rejected_with_the_heads_that_have_one():
    with pytest.raises(UserError, match='RetinaHead'):
        make_graph(torch.nn.Linear(1, 1))


def test_an_old_torch_is_named(monkeypatch):
    monkeypatch.setattr(torch.export, 'export', lambda graph, args, dynamic_shapes=None: None)
    with pytest.raises(UserError, match=r'torch 2\S+ cannot export: .* 2.11 has it'):
        trace(tiny.graph(), ExportOptions(tiny.SIZE))
