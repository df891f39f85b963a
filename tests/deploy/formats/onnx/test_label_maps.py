"""Label maps without full-size logits are those of the argmax of resized logits, to the bit."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mmeffvit.deploy.formats.onnx import label_maps
from mmeffvit.deploy.formats.onnx.label_maps import (
    changed,
    expand_argmax,
    is_argmax_of_resized,
    shrink_argmax,
)
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.quantize import OnnxQuantizer

SIZES = [(64, 96, 16, 24), (61, 90, 16, 23), (17, 200, 3, 1), (40, 40, 40, 40), (12, 15, 16, 24)]


class LabelMap(nn.Module):
    """(B, C, h, w) and an image (H, W) -> (B, H, W)."""

    def __init__(self, align_corners: bool) -> None:
        super().__init__()
        self.align_corners = align_corners

    def forward(self, logits: Tensor, image: Tensor) -> Tensor:
        size = (image.shape[0], image.shape[1])
        how = dict(mode='bilinear', align_corners=self.align_corners)
        return F.interpolate(logits, size, **how).argmax(dim=1)


def sessions(
    classes: int, options: onnxruntime.SessionOptions, *, align_corners: bool = False
) -> list:
    """The shrunk graph, and the plain one."""
    example = (torch.randn(2, classes, 16, 24), torch.zeros(64, 96))
    dynamic = torch.export.Dim.DYNAMIC
    axes = ({0: dynamic, 2: dynamic, 3: dynamic}, {0: dynamic, 1: dynamic})
    found = []
    for change in (shrink_argmax, lambda model: None):
        program = torch.export.export(LabelMap(align_corners), example, dynamic_shapes=axes)
        exported = torch.onnx.export(program, (), dynamo=True, opset_version=20, verbose=False,
                                     input_names=['logits', 'image'], optimize=False)  # fmt: skip
        change(exported.model)
        file = exported.model_proto.SerializeToString()
        found.append(onnxruntime.InferenceSession(file, options, ['CPUExecutionProvider']))
    return found


def run(session, logits: NDArray, height: int, width: int) -> NDArray:
    image = np.zeros((height, width), np.float32)
    (labels,) = session.run(None, dict(logits=logits, image=image))
    assert labels.shape == (len(logits), height, width)
    return labels


def like_trained(shape: tuple[int, ...], seed: int = 0) -> NDArray:
    """Logits with a class far above the others in each of four regions, and smooth noise."""
    batch, classes, height, width = shape
    draw = torch.Generator().manual_seed(seed)
    regions = torch.randint(classes, (batch, 1, 2, 2), generator=draw)
    regions = regions.repeat_interleave(height // 2 + 1, 2).repeat_interleave(width // 2 + 1, 3)
    logits = torch.zeros(shape).scatter_(1, regions[:, :, :height, :width], 20.0)
    logits = F.avg_pool2d(logits, 3, 1, 1, count_include_pad=False)
    noise = torch.randn(batch, classes, height // 4 + 1, width // 4 + 1, generator=draw)
    return (logits + F.interpolate(noise, (height, width), mode='bilinear')).numpy()


def noise(shape: tuple[int, ...]) -> NDArray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ties(shape: tuple[int, ...]) -> NDArray:
    """Few different values, so that several classes have the largest one."""
    return np.round(like_trained(shape) / 2).astype(np.float32)


@pytest.fixture(scope='module', params=[False, True], ids=['centers', 'corners'])
def pair(request) -> list:
    return sessions(40, onnxruntime.SessionOptions(), align_corners=request.param)


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('batch', [1, 2])
@pytest.mark.parametrize('logits', [like_trained, noise, ties, np.zeros])
def test_the_label_map_is_the_same_to_the_bit(pair, logits, batch, size):
    height, width, *cells = size
    values = logits((batch, 40, *cells)).astype(np.float32)
    shrunk, plain = (run(session, values, height, width) for session in pair)
    np.testing.assert_array_equal(shrunk, plain)


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_give_a_label_map(pair, value):
    whole = np.full((1, 40, 16, 24), value, np.float32)
    cell = like_trained((1, 40, 16, 24))
    cell[:, :, 4, 5] = value
    shrunk, plain = (run(session, whole, 64, 96) for session in pair)
    np.testing.assert_array_equal(shrunk, plain)
    shrunk, plain = (run(session, cell, 64, 96) for session in pair)
    np.testing.assert_array_equal(shrunk[:, 32:], plain[:, 32:])  # far from the cell


def partly_equal(shape: tuple[int, ...]) -> NDArray:
    """Logits where all classes can win in two fifths of the cells."""
    logits = like_trained(shape)
    logits[..., : 2 * shape[3] // 5] = 0
    return logits


@pytest.mark.parametrize(
    ('logits', 'searched', 'resized'),
    [
        (like_trained, True, False),
        (noise, False, True),
        (np.zeros, False, True),
        (partly_equal, True, True),
    ],
)
def test_all_logits_are_resized_only_where_many_classes_can_win(
    logits, searched, resized, tmp_path
):
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / 'profile')
    session, _ = sessions(40, options)
    run(session, logits((1, 40, 16, 24)).astype(np.float32), 64, 96)
    events = json.loads(Path(session.end_profiling()).read_text())
    operators = {event.get('args', {}).get('op_name') for event in events}
    assert ('GatherElements' in operators) == searched
    assert ('Resize' in operators) == resized
    assert ('ScatterND' in operators) != resized


def test_threads_do_not_change_a_label_map():
    """ONNX Runtime's ScatterND loses updates of a place that several threads write."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    shrunk, plain = sessions(150, options)
    logits = torch.randn(1, 150, 2, 2, generator=torch.Generator().manual_seed(0))
    logits = F.interpolate(logits, (3, 4), mode='bilinear')
    logits = F.pad(logits, (4, 0, 4, 0), mode='replicate').numpy()  # where one class wins
    expected = run(plain, logits, 512, 512)
    assert len(np.unique(expected)) > 4
    for _ in range(20):
        np.testing.assert_array_equal(run(shrunk, logits, 512, 512), expected)


def test_graphs_of_few_classes_are_unchanged():
    few = label_maps.MIN_CLASSES - 1
    shrunk, _ = sessions(few, onnxruntime.SessionOptions())
    values = like_trained((1, few, 16, 24))
    expected = F.interpolate(torch.from_numpy(values), (64, 96), mode='bilinear').argmax(1)
    assert (run(shrunk, values, 64, 96) == expected.numpy()).mean() > 0.999


class Segmentor(nn.Module):
    """Images (B, 3, H, W) -> label maps (B, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 40, 8, 8)

    def forward(self, images: Tensor) -> Tensor:
        logits = 10 * self.head(images)
        return F.interpolate(logits, images.shape[2:], mode='bilinear').argmax(dim=1)


@pytest.mark.parametrize('opset', [18, 23])
def test_files_of_other_opsets_search_few_classes_too(opset, tmp_path):
    torch.manual_seed(0)
    images = torch.rand(1, 3, 64, 96)
    segmentor = Segmentor().eval()
    program = torch.export.export(segmentor, (images,))
    exported = torch.onnx.export(program, (), dynamo=True, opset_version=opset, verbose=False,
                                 input_names=['images'], optimize=False)  # fmt: skip
    shrink_argmax(exported.model)
    onnx.save(exported.model_proto, tmp_path / 'model.onnx')
    assert onnx.load(tmp_path / 'model.onnx').opset_import[0].version == opset
    assert 'If' in {node.op_type for node in exported.model_proto.graph.node}
    (labels,) = open_onnx(tmp_path / 'model.onnx').run(images.numpy()).values()
    assert (labels == segmentor(images).numpy()).mean() > 0.999  # ties round differently


def test_resized_values_of_unknown_shape_are_left_alone():
    value = ir.Value(name='logits')
    resize = ir.Node('', 'Resize', [value, None, None, ir.Value(name='size')],
                     [ir.AttrString('mode', 'linear')])  # fmt: skip
    attributes = [ir.AttrInt64('axis', 1), ir.AttrInt64('keepdims', 0)]
    assert not is_argmax_of_resized(ir.Node('', 'ArgMax', resize.outputs, attributes))


def test_int8_files_search_few_classes_too(tmp_path):
    torch.manual_seed(0)
    images = [np.random.default_rng(n).random((1, 3, 64, 96), np.float32) for n in range(3)]
    program = torch.export.export(Segmentor().eval(), (torch.from_numpy(images[0]),))
    exported = torch.onnx.export(program, (), dynamo=True, opset_version=20, verbose=False,
                                 input_names=['images'], optimize=False)  # fmt: skip
    shrink_argmax(exported.model)
    onnx.save(exported.model_proto, tmp_path / 'float.onnx')
    quantizer = OnnxQuantizer(tmp_path / 'float.onnx', images)
    attempt = quantizer.attempt(())
    attempt.save(tmp_path / 'int8.onnx', {})
    onnx.save(changed(onnx.load(tmp_path / 'int8.onnx'), expand_argmax), tmp_path / 'plain.onnx')
    files = {name: onnx.load(tmp_path / f'{name}.onnx') for name in ('int8', 'plain')}
    operators = {name: {n.op_type for n in model.graph.node} for name, model in files.items()}
    assert {'If', 'QuantizeLinear'} <= operators['int8']
    assert {'Resize', 'QuantizeLinear'} <= operators['plain']
    assert 'If' not in operators['plain']
    found, expected = (open_onnx(tmp_path / f'{name}.onnx').run(images[0]) for name in files)
    np.testing.assert_array_equal(found['argmax'], expected['argmax'])
