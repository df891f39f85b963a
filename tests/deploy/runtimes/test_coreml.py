"""Core ML packages, as far as they can be tested where they cannot run."""

import pytest
import torch
from torch import Tensor, nn

from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.runtimes.coreml import shapes_of, to_coreml
from mmeffvit.deploy.runtimes.fixed_size import (
    before_nms,
    calls,
    export_fixed,
    lower_rank,
    shape_of,
)
from mmeffvit.errors import UserError
from tests.deploy import models, tiny

# the third stage is the first with attention
MOBILEVITV2 = dict(
    type='mmeffvit.MobileViTv2',
    arch=dict(
        stem_channels=8, channels=(8, 8, 8, 8, 8), attention_channels=(8, 8, 8),
        attention_depths=(1, 1, 1),
    ),
    out_indices=(1, 2),
)  # fmt: skip


def test_a_package_has_the_inputs_outputs_and_metadata_of_the_graph(tmp_path):
    tools = pytest.importorskip('coremltools')
    out = tmp_path / 'model.mlpackage'
    to_coreml(tiny.graph(MOBILEVITV2), tiny.images(), out, metadata=dict(task='features'))
    assert [path.name for path in tmp_path.iterdir()] == ['model.mlpackage']
    package = tools.models.MLModel(str(out), skip_model_load=True)
    assert package.user_defined_metadata['task'] == 'features'
    shapes = shapes_of(package)
    assert shapes['images'] == (1, 3, *tiny.SIZE)
    assert shapes['stride_4'] == (1, 8, 16, 24)
    assert shapes['stride_8'] == (1, 8, 8, 12)
    operations = [
        operation
        for block in package.get_spec().mlProgram.functions['main'].block_specializations.values()
        for operation in block.operations
    ]
    ranks = [
        len(output.type.tensorType.dimensions)
        for operation in operations
        for output in operation.outputs
    ]
    assert max(ranks) == 5
    assert sum(operation.type == 'conv' for operation in operations) >= 10


@pytest.mark.parametrize('name', ['rtmdet_swiftformer_xs', 'retinanet_swiftformer_l1'])
def test_a_detector_converts_with_its_candidates(name, tmp_path):
    tools = pytest.importorskip('coremltools')
    out = tmp_path / 'model.mlpackage'
    graph = before_nms(make_graph(models.tiny(name)))
    images = torch.zeros(1, 3, 96, 128)
    to_coreml(graph, images, out, metadata={})
    shapes = shapes_of(tools.models.MLModel(str(out), skip_model_load=True))
    with torch.no_grad():
        expected = dict(zip(graph.output_names, graph(images), strict=True))
    assert {key: shapes[key] for key in expected} == {
        key: tuple(value.shape) for key, value in expected.items()
    }


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
def test_six_axes_that_cannot_be_reduced_to_five_are_refused(batch):
    program = export_fixed(SixAxes(), tiny.images(batch), 'a test')
    with pytest.raises(UserError, match=r'aten\.(view|softmax).*at most 5 axes'):
        lower_rank(program)
