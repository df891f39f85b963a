"""Runs on a GPU: training, resume, processes, mixed precision, prediction, profile and export."""

from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch

from mmeffvit.deploy.compare import expect_graph
from mmeffvit.deploy.export import Exportable
from mmeffvit.deploy.formats.onnx.open import INSTALL, has_cuda
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.profile.run import ProfileOptions, profile_source
from mmeffvit.inference.predictor import Predictor
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder.fit_batch import largest_batch
from tests.conftest import ROOT, run_command, succeeded
from tests.deploy import models
from tests.train.engine.test_resume import TINY

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
CONFIG = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'


@pytest.fixture(scope='module')
def tiny_config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp('config') / 'tiny.py'
    path.write_text(TINY.replace('BASE', repr(str(CONFIG))))
    return path


def train(
    config: Path, out: Path, data: Path, *flags: object, kill_after: int = -1, epochs: int = 3
) -> CompletedProcess[str]:
    command = ['train', config, '--work-dir', out, '--seed', 7, '--no-check', *flags]
    options = [f'data_root={data}/', f'train_cfg.max_epochs={epochs}']
    return run_command(*command, '--cfg-options', *options, env={'KILL_AFTER': str(kill_after)})


@pytest.fixture(scope='module')
def trained(shapes, tmp_path_factory) -> Path:
    """The demonstration's model after an epoch."""
    out = tmp_path_factory.mktemp('trained')
    succeeded(train(CONFIG, out, shapes, epochs=1))
    return out


def test_an_epoch_of_the_demonstration_is_trained_and_evaluated_on_the_gpu(trained):
    (log,) = trained.glob('*/*.log')
    said = log.read_text()
    assert 'CUDA available: True' in said
    assert 'coco/segm_mAP' in said
    assert ' memory: ' in said  # of the GPU: mmengine logs it there only
    weights = read_content(trained / 'epoch_1.pth')['state_dict']
    assert all(weight.isfinite().all() for weight in weights.values())


def test_predictions_on_the_gpu_are_those_on_the_cpu(trained, shapes, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, 'allow_tf32', False)
    images = sorted((shapes / 'val2017').iterdir())[:2]
    on_gpu, on_cpu = (
        Predictor(CONFIG, trained / 'epoch_1.pth', device=name) for name in ('cuda', 'cpu')
    )
    assert next(on_gpu.model.parameters()).is_cuda
    for image in images:
        found, expected = ([*map(float, p(image).scores[:5])] for p in (on_gpu, on_cpu))
        assert found == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize('amp', [(), ('--amp',)], ids=['float32', 'amp'])
def test_a_killed_run_resumes_in_its_epoch(amp, tiny_config, shapes, tmp_path):
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    assert train(tiny_config, whole, shapes, *amp).returncode == 0
    assert train(tiny_config, killed, shapes, *amp, kill_after=5).returncode == -9
    printed = succeeded(train(tiny_config, killed, shapes, *amp, '--resume'))
    assert 'epoch 1/3' not in printed
    expected, found = (read_content(each / 'epoch_3.pth') for each in (whole, killed))
    assert found['meta']['iter'] == expected['meta']['iter'] == 9
    assert ('loss_scaler' in found['optimizer']) == bool(amp)
    for key, value in expected['state_dict'].items():
        # sums on a GPU have no fixed order
        torch.testing.assert_close(found['state_dict'][key], value, rtol=0.05, atol=0.01, msg=key)


def test_two_processes_train(tiny_config, shapes, tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip(f'two processes need two GPUs, there is {torch.cuda.device_count()}')
    succeeded(train(tiny_config, tmp_path, shapes, '--nproc-per-node', 2))
    assert read_content(tmp_path / 'epoch_3.pth')['meta']['epoch'] == 3


def test_the_batch_that_fits_is_found_on_the_gpu(tiny_config, shapes, tmp_path):
    config = tmp_path / 'config.py'
    config.write_text(f'_base_ = {str(tiny_config)!r}\ndata_root = {str(shapes) + "/"!r}\n')
    assert largest_batch(config, 4, 1, amp=True) == 4


@pytest.mark.parametrize('device', ['cpu', 'cuda'])
@pytest.mark.parametrize('name', models.OPTIONS)
def test_an_exported_file_gives_the_results_of_the_model_on_the_gpu(
    name, device, tmp_path, monkeypatch
):
    monkeypatch.setattr(torch.backends.cudnn, 'allow_tf32', False)
    pytest.importorskip('onnxruntime')
    if device == 'cuda' and not has_cuda():
        pytest.skip(f'onnxruntime is built without CUDA: {INSTALL}')
    model, size = models.tiny(name), (96, 128)
    path = export_graph(make_graph(model), tmp_path / 'model.onnx', ExportOptions(size, 2))
    batches = [models.smooth_image(size, 2)]
    errors = models.errors_on(path, model.cuda(), batches, device)
    assert all(error.agrees for error in errors), '; '.join(map(str, errors))


@pytest.mark.parametrize('name', models.OPTIONS)
def test_a_model_is_profiled_on_the_gpu(name, tmp_path):
    pytest.importorskip('onnxruntime')
    graph, size = make_graph(models.tiny(name)), (96, 128)
    image = ('noise', models.smooth_image(size)[0].transpose(1, 2, 0).astype(np.uint8))
    source = Exportable(graph, {}, partial(expect_graph, graph), image)
    options = ProfileOptions(device='cuda', threads=(1,), seconds=0.05)
    found = profile_source(name, source, ExportOptions(size, 1), tmp_path, options)
    measured = {(each.candidate.runtime, each.candidate.precision) for each in found.measured}
    assert ('PyTorch CUDA', 'float32') in measured, found.absent
    assert ('PyTorch CUDA', 'float16') in measured, found.absent
    assert (('ONNX Runtime CUDA', 'float32') in measured) == has_cuda(), found.absent
    assert found.gpu == torch.cuda.get_device_name()
