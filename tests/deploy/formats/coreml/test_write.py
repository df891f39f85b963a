"""Core ML packages, as far as they can be tested where they cannot run."""

import json
import re
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from mmeffvit.deploy.formats.coreml.write import nms_of
from mmeffvit.deploy.formats.fixed_size import calls, export_fixed, lower_rank, shape_of
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.raw import for_vision, without_selection
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from tests.deploy import models, tiny
from tests.variants import sampled

# the third stage is the first with attention
MOBILEVITV2 = dict(
    type='mmeffvit.MobileViTv2',
    arch=dict(
        stem_channels=8, channels=(8, 8, 8, 8, 8), attention_channels=(8, 8, 8),
        attention_depths=(1, 1, 1),
    ),
    out_indices=(1, 2),
)  # fmt: skip


@pytest.fixture(scope='module')
def tools() -> ModuleType:
    """Imported by the tests that need it: that takes four seconds."""
    return pytest.importorskip('coremltools')


def test_a_package_has_the_inputs_outputs_and_metadata_of_the_graph(tools, tmp_path):
    from mmeffvit.deploy.formats.coreml.write import shapes_of, to_coreml

    out = tmp_path / 'model.mlpackage'
    to_coreml(tiny.export(tiny.graph(MOBILEVITV2)), out, dict(task='features'))
    assert [path.name for path in tmp_path.iterdir()] == ['model.mlpackage']
    package = tools.models.MLModel(str(out), skip_model_load=True)
    assert package.user_defined_metadata['task'] == 'features'
    shapes = shapes_of(package.get_spec())
    assert shapes['images'] == (1, 3, *tiny.SIZE)
    assert shapes['stride_4'] == (1, 8, 16, 24)
    assert shapes['stride_8'] == (1, 8, 8, 12)
    blocks = package.get_spec().mlProgram.functions['main'].block_specializations.values()
    kinds = [operation.type for block in blocks for operation in block.operations]
    assert kinds.count('conv') >= 10


CLASSES = {'classes': json.dumps(models.CLASSES), 'palette': json.dumps([[0, 128, 255]] * 5)}


@pytest.mark.parametrize(
    'name',
    sampled(
        ['rtmdet_swiftformer_xs', 'retinanet_swiftformer_l1', 'ssdlite_mobilevitv2_050',
         'gflite_swiftformer_xs'],
        ['rtmdet_swiftformer_xs'],
    ),
)  # fmt: skip
def test_a_detector_takes_an_image_and_ends_with_nms_and_class_names(name, tools, tmp_path):
    model = models.tiny(name)
    write(make_graph(model), tmp_path / 'm.mlpackage', ExportOptions((96, 128)), CLASSES)
    package = tools.models.MLModel(str(tmp_path / 'm.mlpackage'), skip_model_load=True)
    spec = package.get_spec()
    first, *rest = spec.description.input
    kind = first.type.imageType
    assert (first.name, kind.height, kind.width) == ('images', 96, 128)
    assert kind.colorSpace == kind.RGB
    assert [each.name for each in rest] == ['iouThreshold', 'confidenceThreshold']
    assert all(each.type.isOptional for each in rest)
    assert [each.name for each in spec.description.output] == ['confidence', 'coordinates']
    nms = spec.pipeline.models[1].nonMaximumSuppression
    assert tuple(nms.stringClassLabels.vector) == models.CLASSES
    assert nms.pickTop.perClass
    model.test_cfg.nms.class_agnostic = True
    graph = for_vision(make_graph(model), (96, 128))
    nms = nms_of(spec.pipeline.models[0], graph, models.CLASSES).nonMaximumSuppression
    assert not nms.pickTop.perClass
    assert nms.iouThreshold == pytest.approx(model.test_cfg.nms.iou_threshold)
    assert nms.confidenceThreshold == pytest.approx(model.test_cfg.get('score_thr', 0))
    assert json.loads(package.user_defined_metadata['outputs']) == ['confidence', 'coordinates']


@pytest.mark.parametrize(
    'name', ['rtmdet_swiftformer_xs', 'ssdlite_mobilevitv2_050', 'gflite_swiftformer_xs']
)
def test_coordinates_are_those_of_the_boxes_of_the_detector(name):
    graph = make_graph(models.tiny(name))
    size, images = (96, 128), torch.rand(1, 3, 96, 128) * 255
    with torch.no_grad():
        boxes, scores = without_selection(graph, size)(images)
        confidence, coordinates = for_vision(graph, size)(images)
    x, y, width, height = (coordinates.T.double() * torch.tensor([[128], [96], [128], [96]])).T.T
    corners = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=1)
    torch.testing.assert_close(corners.float(), boxes[0], atol=1e-4, rtol=1e-5)
    assert torch.equal(confidence, scores[0])


@pytest.mark.parametrize('half', sampled([False, True], [True]))
def test_a_segmentor_takes_an_image_and_has_a_preview(half, tools, tmp_path):
    from mmeffvit.deploy.formats.coreml.write import shapes_of

    graph = make_graph(models.tiny('segformer_swiftformer_xs_ade20k'))
    write(graph, tmp_path / 'm.mlpackage', ExportOptions((96, 128)), CLASSES, half=half)
    package = tools.models.MLModel(str(tmp_path / 'm.mlpackage'), skip_model_load=True)
    assert shapes_of(package.get_spec()) == {'images': (1, 3, 96, 128), 'label_map': (96, 128)}
    metadata = package.user_defined_metadata
    assert metadata['com.apple.coreml.model.preview.type'] == 'imageSegmenter'
    params = json.loads(metadata['com.apple.coreml.model.preview.params'])
    assert params == {'labels': list(models.CLASSES), 'colors': ['#0080ff'] * 5}


@pytest.mark.usefixtures('tools')
def test_float16_is_emulated_and_an_overflow_is_rejected(tmp_path):
    graph = tiny.graph(MOBILEVITV2)
    report = str(write(graph, tmp_path / 'm.mlpackage', ExportOptions(tiny.SIZE), half=True))
    errors = [float(value) for value in re.findall(r'relative error (\S+) ', report)]
    assert len(errors) == 2
    assert all(1e-4 < error < 2e-2 for error in errors)  # float16 has 11 bits
    with torch.no_grad():
        next(graph.network.stem.parameters()).mul_(1e5)  # beyond 65504
    with pytest.raises(UserError, match='disagrees with the original'):
        write(graph, tmp_path / 'n.mlpackage', ExportOptions(tiny.SIZE), half=True)
    assert not (tmp_path / 'n.mlpackage').exists()


def test_reducing_the_rank_changes_no_value():
    graph = SixAxesOfOneImage()
    program = export_fixed(graph, tiny.images(), 'a test')
    assert max(len(shape_of(node)) for node in calls(program)) == 6
    lower_rank(program)
    assert max(len(shape_of(node)) for node in calls(program)) == 5
    with torch.no_grad():
        torch.testing.assert_close(program.module()(tiny.images()), graph(tiny.images()))


class SixAxesOfOneImage(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        cut = images.view(images.shape[0], 3, 2, -1, 2, images.shape[3] // 2)
        return (cut.relu() * 2).view(images.shape)


class SixAxes(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.view(images.shape[0], 3, 2, -1, 2, 48).softmax(1).flatten(1)


@pytest.mark.parametrize('batch', [1, 2])
def test_six_axes_that_cannot_be_reduced_to_five_are_rejected(batch):
    program = export_fixed(SixAxes(), tiny.images(batch), 'a test')
    with pytest.raises(UserError, match=r'aten\.(view|softmax).*at most 5 axes'):
        lower_rank(program)
