"""Conversion of ONNX files to OpenVINO, run on this CPU."""

import pytest
import torch

from mmeffvit.deploy.agreement import largest_error
from mmeffvit.deploy.formats.openvino.open import METADATA
from mmeffvit.deploy.formats.openvino.write import to_openvino
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.errors import UserError
from tests.conftest import run_python, succeeded
from tests.deploy import tiny

OPEN_CLOSE_SIGNAL = """
import signal, subprocess, sys
from mmeffvit.deploy.formats.openvino.open import core, open_openvino

first, second = (open_openvino(core().read_model(sys.argv[1])) for _ in range(2))
del first
del second
ended = []
signal.signal(signal.SIGCHLD, lambda *_: ended.append('a child ended'))
subprocess.run([sys.executable, '-c', ''])
print(ended)
"""


def test_the_ir_gives_the_outputs_of_the_eager_model_at_any_size(tmp_path):
    openvino = pytest.importorskip('openvino')
    out = tmp_path / 'model.xml'
    to_openvino(tiny.onnx_file(), out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['model.bin', 'model.xml']
    graph = tiny.graph()
    images = torch.rand(2, 3, 97, 65) * 255
    with torch.no_grad():
        outputs = dict(zip(graph.output_names, graph(images), strict=True))
    for name, found in open_model(out).run(images.numpy()).items():
        assert largest_error(outputs[name].numpy(), found) < 1e-4
    # the metadata of the ONNX file is copied
    assert openvino.Core().read_model(out).get_rt_info([METADATA, 'note']).value == 'kept'


def test_half_weights_take_half_the_space(tmp_path):
    pytest.importorskip('openvino')
    out = tmp_path / 'model.xml'
    to_openvino(tiny.onnx_file(), out, half=True)
    weights = sum(v.numel() * 4 for v in tiny.graph().state_dict().values())
    assert out.with_suffix('.bin').stat().st_size < 0.7 * weights  # shapes are still integers
    with pytest.raises(UserError, match=r'other\.xml cannot be written'):
        to_openvino(tiny.onnx_file(), out / 'other.xml')


def test_a_signal_after_models_were_closed_is_handled(tmp_path):
    pytest.importorskip('openvino')
    to_openvino(tiny.onnx_file(), tmp_path / 'model.xml')
    # faulthandler has a signal stack of its own, as in pytest and in notebooks
    printed = succeeded(
        run_python('-X', 'faulthandler', '-c', OPEN_CLOSE_SIGNAL, tmp_path / 'model.xml')
    )
    assert printed.split('\n')[-2] == "['a child ended']"
