"""int8 files for LiteRT."""

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmeffvit.deploy.agreement import signal_to_noise
from mmeffvit.deploy.formats.litert.open import open_litert
from mmeffvit.deploy.formats.litert.quantize import Quantizer, int8_litert
from mmeffvit.deploy.formats.litert.write import count_operators, to_litert
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.int8.quantize import NOTE, quantize
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from tests.deploy import tiny

for package in ('litert_torch', 'ai_edge_quantizer'):
    pytest.importorskip(package)


@pytest.fixture(scope='module')
def float_file(tmp_path_factory):
    out = tmp_path_factory.mktemp('litert') / 'model.tflite'
    write(tiny.graph(), out, ExportOptions(tiny.SIZE, 1), dict(note='kept'))
    return out


def test_an_int8_file_is_accurate_small_and_records_how_it_was_made(float_file, folder, tmp_path):
    out = tmp_path / 'int8.tflite'
    report = quantize(float_file, folder, out, allow_slower=True)
    metadata = open_litert(out).metadata
    assert metadata['note'] == 'kept'
    said = json.loads(metadata[NOTE])
    assert (said['calibrated'], said['held_out']) == (4, 2)
    for name in ('stride_4', 'stride_8'):  # the first is read by int8 operators, too
        assert said['agreement'][f'{name}: signal-to-noise ratio, dB'] > 25
    assert report.chosen.attempt.quantized > 15
    assert out.stat().st_size < 0.75 * float_file.stat().st_size
    assert set(count_operators(out)[0]) >= {'QUANTIZE', 'DEQUANTIZE'}
    assert open_litert(out).run(tiny.images().numpy())['stride_8'].dtype == np.float32
    with pytest.raises(UserError, match=r'no node to quantize is called conv'):
        quantize(float_file, folder, out, exclude=['conv'])
    name = Quantizer(float_file, ()).nodes[0]
    with pytest.raises(UserError, match='quantized as a whole'):
        quantize(float_file, folder, out, exclude=[name])
    with pytest.raises(UserError, match=r'must end in \.tflite'):
        quantize(float_file, folder, tmp_path / 'int8.onnx')


def int8_operators(content: bytes) -> list[str]:
    """Names of the operators with an int8 output."""
    from ai_edge_litert.tools import flatbuffer_utils

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(content))
    (graph,) = model.subgraphs
    return sorted(
        flatbuffer_utils.opcode_to_name(model, operator.opcodeIndex)
        for operator in graph.operators
        if flatbuffer_utils.type_to_name(graph.tensors[operator.outputs[0]].type) == 'INT8'
    )


class DeadChannel(nn.Module):
    """A convolution with two channels without weights, SiLU, and another product."""

    output_names = ('out',)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        nn.init.zeros_(self.conv.weight[:2])
        nn.init.constant_(self.conv.bias, 50.0)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        x = self.conv(images)
        return (x * x.sigmoid() * x,)


def test_channels_without_weights_keep_their_bias_and_only_products_of_silu_are_int8(tmp_path):
    graph, images = DeadChannel().eval(), tiny.images() / 255
    out = tmp_path / 'model.tflite'
    to_litert(tiny.export(graph), out, {})
    content, count = int8_litert(out.read_bytes(), [images.numpy()])
    assert count == 1
    assert int8_operators(content) == ['CONV_2D', 'LOGISTIC', 'MUL', 'QUANTIZE']
    assert count_operators(out)[0]['MUL'] == 2
    out.write_bytes(content)
    with torch.no_grad():
        (expected,) = graph(images)
    found = open_litert(content).run(images.numpy())['out']
    assert signal_to_noise([expected.numpy()], [found]) > 30


class Detector(nn.Module):
    """The end of a detector: two convolutions with SiLU between them, and scores."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.output_names = (name, 'scores')
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        maps = self.last(nn.functional.silu(self.first(images)))
        return maps, maps.sigmoid()


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('boxes', ['CONV_2D', 'QUANTIZE']),
        ('maps', ['CONV_2D', 'CONV_2D', 'LOGISTIC', 'LOGISTIC', 'MUL', 'QUANTIZE']),
    ],
)
def test_the_end_of_a_detector_is_float(name, expected, tmp_path):
    to_litert(tiny.export(Detector(name).eval()), tmp_path / 'model.tflite', {})
    content, count = int8_litert((tmp_path / 'model.tflite').read_bytes(), [tiny.images().numpy()])
    assert int8_operators(content) == expected
    assert count == expected.count('CONV_2D')
