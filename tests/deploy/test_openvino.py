"""Conversion of ONNX files to OpenVINO, run on this CPU."""

import sys

import numpy as np
import pytest
import torch

from mmeffvit.deploy.agreement import largest_error
from mmeffvit.deploy.formats import write
from mmeffvit.deploy.onnx.export import ExportOptions
from mmeffvit.deploy.runtimes.openvino import METADATA, run_openvino, to_openvino
from mmeffvit.errors import UserError
from tests.deploy import tiny


@pytest.fixture(scope='module')
def expected() -> dict[str, np.ndarray]:
    graph = tiny.graph()
    with torch.no_grad():
        outputs = graph(tiny.images())
    return {n: v.numpy() for n, v in zip(graph.output_names, outputs, strict=True)}


def test_the_ir_gives_the_outputs_of_the_eager_model_at_any_size(tmp_path, expected):
    openvino = pytest.importorskip('openvino')
    out = tmp_path / 'model.xml'
    to_openvino(tiny.onnx_file(), out, tiny.images().numpy(), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['model.bin', 'model.xml']
    graph = tiny.graph()
    images = torch.rand(2, 3, 97, 65) * 255
    with torch.no_grad():
        outputs = dict(zip(graph.output_names, graph(images), strict=True))
    for name, found in run_openvino(out, images.numpy()).items():
        assert largest_error(outputs[name].numpy(), found) < 1e-4
    # what the ONNX file says of itself goes along
    assert openvino.Core().read_model(out).get_rt_info([METADATA, 'note']).value == 'kept'


def test_half_weights_take_half_the_space(tmp_path, expected):
    pytest.importorskip('openvino')
    out = tmp_path / 'model.xml'
    to_openvino(tiny.onnx_file(), out, tiny.images().numpy(), expected, half=True)
    weights = sum(v.numel() * 4 for v in tiny.graph().state_dict().values())
    assert out.with_suffix('.bin').stat().st_size < 0.7 * weights  # shapes are integers still


def test_a_model_with_other_outputs_is_not_written(tmp_path, expected):
    pytest.importorskip('openvino')
    other = {name: value + 0.01 * np.abs(value).max() for name, value in expected.items()}
    with pytest.raises(UserError, match=r"output 'stride_4' .* differs by 0\.0"):
        to_openvino(tiny.onnx_file(), tmp_path / 'model.xml', tiny.images().numpy(), other)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ('ending', 'package', 'extra'),
    [
        ('.xml', 'openvino', 'openvino'),
        ('.pte', 'executorch', 'executorch'),
        ('.mlpackage', 'coremltools', 'coreml'),
    ],
)
def test_a_missing_package_is_named_with_its_cure(tmp_path, monkeypatch, ending, package, extra):
    # None in sys.modules is how Python itself marks a module that cannot be imported
    for name in [n for n in sys.modules if n.partition('.')[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr('mmeffvit.deploy.formats.export_graph', lambda *_: tiny.onnx_file())
    with pytest.raises(UserError, match=rf"{package}.*pip install 'mmeffvit\[{extra}\]'"):
        write(tiny.graph(), tmp_path / f'model{ending}', ExportOptions(shape=tiny.SIZE))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_lists_the_formats(tmp_path):
    with pytest.raises(UserError, match=r"'\.tflite'; choose among \.onnx .*\.mlpackage"):
        write(tiny.graph(), tmp_path / 'model.tflite', ExportOptions())
    with pytest.raises(UserError, match='--shape HEIGHT WIDTH'):
        write(tiny.graph(), tmp_path / 'model.pte', ExportOptions())
