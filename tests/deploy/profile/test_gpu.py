"""What is measured on a GPU, as far as a CPU can tell: which candidates, and why there are none."""

from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as runtime
import pytest
import torch

from mmeffvit.deploy.compare import expect_graph
from mmeffvit.deploy.formats.onnx import open as onnx
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.profile import pytorch
from mmeffvit.deploy.profile.candidates import Candidate, gpu_files
from mmeffvit.deploy.profile.rounds import time_in_rounds
from mmeffvit.deploy.profile.run import ProfileOptions, profile_file
from mmeffvit.deploy.profile.worker import Job
from mmeffvit.errors import UserError
from tests.deploy import models, tiny

no_gpu = pytest.mark.skipif(
    torch.cuda.is_available() or onnx.has_cuda(), reason='there is CUDA: see tests/gpu'
)


@pytest.fixture(scope='module')
def detector():
    return make_graph(models.tiny('ssdlite_mobilevitv2_050')).eval()


@no_gpu
def test_an_onnxruntime_without_cuda_is_named_with_the_command_to_replace_it(onnx_file):
    with pytest.raises(UserError, match=r'built without CUDA, which cuda:1 needs: `pip uninstall'):
        open_model(onnx_file, device='cuda:1')
    with pytest.raises(UserError, match='built without CUDA') as failure:
        profile_file(onnx_file, onnx_file.parent, options=ProfileOptions(device='cuda'))
    assert str(failure.value).startswith('--device cuda: torch ')
    assert pytorch.find_gpu('auto') is None


def test_a_session_that_fell_back_to_the_cpu_is_rejected(onnx_file, monkeypatch):
    """The real session of a runtime that claims CUDA: on a host without it, that is the CPU's."""
    monkeypatch.setattr(onnx, 'has_cuda', lambda: True)
    create = runtime.InferenceSession

    def fall_back(source, options, providers, **kwargs):
        ((name, settings),) = providers
        assert (name, settings['device_id'], kwargs) == (onnx.CUDA, '2', {'enable_fallback': 0})
        return create(source, options, providers=['CPUExecutionProvider'])

    monkeypatch.setattr(runtime, 'InferenceSession', fall_back)
    with pytest.raises(UserError, match=r'would run on the CPU instead of cuda:2: .*needs a GPU'):
        open_model(onnx_file, device='cuda:2')


@pytest.mark.parametrize('device', ['gpu', 'cuda:x', 'CUDA'])
def test_an_unknown_device_is_named(device, onnx_file, monkeypatch):
    with pytest.raises(UserError, match=f'device {device!r} cannot be used: give cpu, cuda'):
        open_model(onnx_file, device=device)
    monkeypatch.setattr(pytorch, 'has_cuda', lambda: True)
    with pytest.raises(UserError, match=f'--device is {device!r}; choose from auto, cpu, cuda'):
        pytorch.find_gpu(device)


def test_files_of_other_runtimes_run_on_the_cpu(tmp_path):
    with pytest.raises(UserError, match=r'model\.xml runs on the CPU, not on cuda: an \.onnx'):
        open_model(tmp_path / 'model.xml', device='cuda')


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (dict(clock='processor', threads=(1,)), '--clock processor is for the CPU'),
        (dict(formats=('.xml',)), r'measures \.onnx; --formats leaves it out'),
    ],
)
def test_options_that_leave_nothing_for_a_gpu_are_rejected(options, words, monkeypatch):
    monkeypatch.setattr(pytorch, 'has_cuda', lambda: True)
    with pytest.raises(UserError, match=words):
        ProfileOptions(device='cuda', **options)
    assert ProfileOptions(device='auto', clock='processor', threads=(1,)).gpu is None


def test_the_file_and_the_model_in_pytorch_are_candidates_that_agree_and_are_timed(
    onnx_file, tmp_path
):
    graph, images = tiny.graph(tiny.FIRST_STAGE), tiny.images().numpy()
    file = Candidate('ONNX Runtime', 'float32', onnx_file)
    expect = partial(expect_graph, graph)
    entries = list(gpu_files('cpu', {'.onnx': file}, expect, images, graph))
    assert [(each.runtime, each.precision) for each in entries] == [
        ('ONNX Runtime CUDA', 'float32'),
        ('PyTorch CUDA', 'float32'),
        ('PyTorch CUDA', 'float16'),
    ]
    assert all(each.agrees and each.measures for each in entries), entries
    stored = tmp_path / 'images.npy'
    np.save(stored, images)
    times, failures = time_in_rounds({0: Job(Path(), stored, 1, graph=graph)}, 0.01)
    assert not failures
    assert times[0].median > 0


def test_in_mixed_precision_only_the_network_is_in_float16(detector):
    images = models.smooth_image((64, 64), 1)
    single, half = (
        pytorch.open_graph(deepcopy(detector), 'cpu', half=half).run(images)
        for half in (False, True)
    )
    for found in (single, half):
        kinds = {name: str(value.dtype) for name, value in found.items()}
        assert kinds == dict(boxes='float32', scores='float32', labels='int64')
    assert not np.array_equal(single['scores'], half['scores'])
    np.testing.assert_allclose(single['scores'], half['scores'], atol=0.02)


def test_what_cannot_run_on_the_gpu_is_absent_with_its_reason(onnx_file, detector):
    file = Candidate('ONNX Runtime', 'float32', onnx_file)
    images = models.smooth_image((96, 128), 1)
    entries = list(gpu_files('nowhere', {'.onnx': file}, print, images, detector))
    assert all(each.state == 'not possible' for each in entries)
    assert "device 'nowhere' cannot be used" in entries[0].reason
    assert 'nowhere' in entries[1].reason
