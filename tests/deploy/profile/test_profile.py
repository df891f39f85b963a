"""What every runtime gives: measured in rounds, compared with the model, the fastest written."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import cv2
import numpy as np
import pytest
import torch

from mmeffvit.deploy.agreement import MINIMA, signal_to_noise
from mmeffvit.deploy.compare import expect_graph, run_graph
from mmeffvit.deploy.export import Exportable
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.openvino import write as openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX, open_model
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.profile import rounds, run
from mmeffvit.deploy.profile.candidates import Candidate
from mmeffvit.deploy.profile.report import Measured, Profile
from mmeffvit.deploy.profile.rounds import Timing, working
from mmeffvit.deploy.profile.run import (
    ProfileOptions,
    profile_file,
    profile_source,
    thread_counts,
    write_best,
)
from mmeffvit.deploy.profile.worker import Job
from mmeffvit.deploy.write import noise_image
from mmeffvit.errors import UserError
from tests.conftest import ROOT, output_of, rejected
from tests.deploy import models, tiny
from tests.deploy.onnx_files import red_file

for package in ('onnx', 'onnxruntime', 'openvino', 'nncf', 'pnnx', 'ncnn'):
    pytest.importorskip(package)

SIZES = ExportOptions(tiny.SIZE, 1)
FAST = ProfileOptions(formats=('.onnx', '.xml', '.param'), threads=(1,), seconds=0.05)


@pytest.fixture(scope='module')
def source() -> Exportable:
    graph = tiny.graph(tiny.FIRST_STAGE)
    image = ('noise', noise_image(tiny.SIZE))
    return Exportable(graph, dict(note='kept'), partial(expect_graph, graph), image)


@pytest.fixture(scope='module')
def profiled(source, folder, tmp_path_factory) -> Profile:
    out = tmp_path_factory.mktemp('profiled')
    return profile_source('tiny', source, SIZES, out, replace(FAST, images=folder))


def files(profile: Profile) -> set[tuple[str, str]]:
    return {(each.candidate.runtime, each.candidate.precision) for each in profile.measured}


def test_every_runtime_and_precision_is_measured_or_the_reason_is_given(profiled):
    floats = {(runtime, 'float32') for runtime in ('ONNX Runtime', 'OpenVINO', 'ncnn')}
    int8 = {(runtime, 'int8') for runtime in ('ONNX Runtime', 'OpenVINO')}
    assert floats | int8 <= files(profiled)
    absent = {(each.runtime, each.precision): each.state for each in profiled.absent}
    for runtime in ('OpenVINO', 'ncnn'):  # it depends on the CPU
        half = (runtime, 'float16')
        assert half in files(profiled) or absent.pop(half) == 'stored only'
    assert not absent
    assert all(each.candidate.reason for each in profiled.measured)


def test_files_are_listed_by_their_medians_and_their_memory_is_plausible(profiled):
    medians = [float(np.median(each.timing.seconds)) for each in profiled.measured]
    assert medians == sorted(medians)
    for each in profiled.measured:
        assert 0 < each.timing.added < each.timing.peak < 2**30


def timed(runtime: str, *seconds: float) -> Measured:
    return Measured(Candidate(runtime, 'float32'), Timing(1, seconds, 0.0, 2**21, 2**20))


def test_a_file_whose_deciles_overlap_with_the_fastest_is_not_clearly_slower(profiled):
    best = timed('ONNX Runtime', 10, 11, 12)  # deciles of three values: 10.2 to 11.8
    close, slower = timed('OpenVINO', 11.4, 13, 14), timed('ncnn', 11.9, 13, 14)  # from 11.7, 12.1
    found = replace(profiled, measured=(best, close, slower))
    assert (found.best, found.close) == (best, (close,))
    assert 'fastest that agrees: ONNX Runtime, float32, 1 thread, 11000.00 ms' in str(found)
    assert 'not clearly slower, by its spread: OpenVINO, float32, 1 thread\n' in f'{found}\n'


def test_the_best_file_is_written_and_agrees(profiled, source, tmp_path):
    out = write_best(profiled, tmp_path / 'best')
    path = profiled.best.candidate.path
    assert out == tmp_path / f'best{path.suffix}'
    names = sorted(f'best{suffix}' for suffix in (path.suffix, *BY_SUFFIX[path.suffix].companions))
    assert sorted(item.name for item in tmp_path.iterdir()) == names
    images = tiny.images().numpy()
    expected, found = run_graph(source.graph, images), open_model(out).run(images)
    assert min(signal_to_noise([expected[k]], [found[k]]) for k in expected) > 15
    assert write_best(profiled, out) == out  # again, over itself
    other = next(suffix for suffix in FAST.formats if suffix != path.suffix)
    with pytest.raises(UserError, match=rf'leave the suffix out, .* --formats \{other}'):
        write_best(profiled, tmp_path / f'best{other}')
    with pytest.raises(UserError, match='is the model itself'):
        write_best(profiled, path)


def test_a_file_that_disagrees_is_rejected_and_never_chosen(source, tmp_path, monkeypatch):
    wrong = tiny.build(tiny.FIRST_STAGE)
    with torch.no_grad():
        next(wrong.parameters()).mul_(2.0)
    write = openvino.write

    def write_wrong(export, path):
        return write(replace(export, part=type(export.part)(wrong).eval()), path)

    monkeypatch.setattr(openvino, 'write', write_wrong)
    options = replace(FAST, formats=('.onnx', '.xml'))
    found = profile_source('tiny', source, SIZES, tmp_path, options)
    assert files(found) == {('ONNX Runtime', 'float32')}
    rejected = [each for each in found.absent if each.state == 'rejected']
    assert {(each.runtime, each.precision) for each in rejected} == {
        ('OpenVINO', 'float32'), ('OpenVINO', 'float16'),
    }  # fmt: skip
    assert 'stride_4: relative error' in rejected[0].reason
    assert 'OpenVINO float32: rejected: ' in str(found)


def test_a_missing_runtime_is_listed_with_its_cure_and_int8_needs_images(
    onnx_file, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, 'openvino', None)
    found = profile_file(onnx_file, tmp_path, options=FAST)
    assert files(found) == {('ONNX Runtime', 'float32')}
    absent = {(each.runtime, each.precision): each for each in found.absent}
    openvino, int8 = absent['OpenVINO', 'float32'], absent['ONNX Runtime', 'int8']
    assert openvino.state == 'not installed'
    assert f"pip install -e '{ROOT}[openvino]'" in openvino.reason
    assert int8.state == 'not measured'
    assert '--images FOLDER' in int8.reason


@pytest.mark.parametrize('suffix', ['.param', '.tflite'])
def test_what_remains_for_the_application_counts(suffix, folder, tmp_path, monkeypatch):
    if suffix == '.tflite':
        pytest.importorskip('litert_torch')
        # random logits have little signal
        monkeypatch.setitem(MINIMA, 'signal-to-noise ratio, dB', 0.0)
    graph = make_graph(models.tiny('segformer_swiftformer_xs_ade20k'))
    image = ('noise', noise_image(tiny.SIZE))
    source = Exportable(graph, {}, partial(expect_graph, graph), image)
    options = replace(FAST, formats=(suffix,), images=folder)
    label_maps = []

    def quarter_of_a_second(steps, *_):  # of the steps alone: files run in other processes
        label_maps.append(steps()['label_map'])
        return [0.25]

    monkeypatch.setattr(run, 'timed', quarter_of_a_second)
    found = profile_source('segformer', source, SIZES, tmp_path, options)
    assert {each.shape for each in label_maps} == {(1, *tiny.SIZE)}
    precisions = {each.candidate.precision for each in found.measured}
    assert precisions >= ({'float32', 'int8'} if suffix == '.tflite' else {'float32'})
    for each in found.measured:
        assert each.timing.last_steps == 0.25
        assert all(seconds > 0.25 for seconds in each.timing.seconds)
    file = next(e.candidate.path for e in found.measured if e.candidate.precision == 'float32')
    (alone,) = profile_file(file, tmp_path, options=FAST).measured
    assert alone.timing.last_steps == 0.25


def test_an_exported_file_is_profiled_drawn_and_its_fastest_form_written(onnx_file, tmp_path):
    out = {name: tmp_path / 'out' / name for name in ('numbers.json', 'picture.png', 'best')}
    printed = output_of(
        'profile', onnx_file, '--threads', 1, '--seconds', 0.05, '--json', out['numbers.json'],
        '--out', out['picture.png'], '--write', out['best'],
    )  # fmt: skip
    said = json.loads(out['numbers.json'].read_text())
    runtimes = {row['runtime'] for row in said['measured']}
    assert runtimes == {'ONNX Runtime', 'OpenVINO'}
    assert f'fastest that agrees: {said["best"]}' in printed
    assert 'ExecuTorch float32: not measured: an exported file' in printed
    picture = cv2.imread(str(out['picture.png']))
    assert picture.shape[1] == 1040
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    written = [path for path in out['best'].parent.glob('best.*') if path.suffix in BY_SUFFIX]
    images = tiny.images().numpy()
    expected, found = (open_model(path).run(images) for path in (onnx_file, *written))
    assert min(signal_to_noise([expected[k]], [found[k]]) for k in expected) > 40


def test_a_quantized_file_is_measured_as_it_is(profiled, tmp_path):
    path = next(
        each.candidate.path for each in profiled.measured
        if each.candidate.path.suffix == '.onnx' and each.candidate.precision == 'int8'
    )  # fmt: skip
    found = profile_file(path, tmp_path, options=FAST)
    assert files(found) == {('ONNX Runtime', 'int8')}
    assert 'OpenVINO float32: not measured' in str(found)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['none.mlpackage'], 'none.mlpackage is opened on macOS'),
        (['none.onnx', 'epoch_12.pth'], 'there is no checkpoint'),
        (['ANY', '--threads', '1'], 'give --shape HEIGHT WIDTH'),
        (['FILE', '--threads', '1', '2', '--clock', 'processor'], 'give --threads 1'),
        (['FILE', '--seconds', '0'], '--seconds is 0'),
        (['FILE', '--shape', '32', '64'], 'the file takes images of (64, 96)'),
        (['FILE', '--out', 'picture.jpg'], "--out 'picture.jpg' must end in .png"),
        (['FILE', '--write', 'best.pth'], 'leave the suffix out'),
        (['FILE', '--formats', '.tflite'], 'nothing can be measured'),
        (['FILE', '--score-thr', 'nan'], '--score-thr is nan; give a score from 0 to 1'),
        (['FILE', '--json', 'FILE'], 'would be overwritten, but is profiled'),
        (['FILE', '--write', 'FILE'], 'would be overwritten, but is profiled'),
        (['FILE', '--write', 'STEM'], 'would be overwritten, but is profiled'),
        (['none.py', 'FILE', '--write', 'STEM'], 'would be overwritten, but is profiled'),
    ],
)
def test_bad_input_ends_in_one_message(arguments, words, onnx_file):
    files = dict(FILE=str(onnx_file), STEM=str(onnx_file.with_suffix('')))
    files |= dict(ANY=str(red_file(onnx_file.with_name('any.onnx'))))
    assert words in rejected('profile', *(files.get(each, each) for each in arguments))


def test_a_process_that_fails_says_why(onnx_file, tmp_path):
    path, images = tmp_path / 'model.onnx', tmp_path / 'images.npy'
    path.write_bytes(b'no model')
    np.save(images, tiny.images().numpy())
    with (
        pytest.raises(UserError, match=r'model\.onnx cannot be read as a model'),
        working(Job(path, images, 1)),
    ):
        pass
    with working(Job(onnx_file, images, 1)) as ask:
        assert len(ask(0.01)['times']) >= 1
        with pytest.raises(UserError, match='could not convert string to float'):
            ask('soon')
        with pytest.raises(UserError, match='its process ended with code 0'):
            ask(0.01)


def test_a_process_that_ends_within_its_answer_is_reported(monkeypatch, onnx_file):
    monkeypatch.setattr(rounds, 'COMMAND', ('printf', '{"times": [0.1'))
    with (
        pytest.raises(UserError, match='its process ended with code 0'),
        working(Job(onnx_file, onnx_file, 1)),
    ):
        pass


def test_the_process_of_a_file_does_not_import_torch():
    code = 'import sys, mmeffvit.deploy.profile.worker; sys.exit("torch" in sys.modules)'
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    assert subprocess.run([sys.executable, '-c', code], env=environment).returncode == 0


def test_threads_are_powers_of_two_up_to_all_cores():
    assert [thread_counts(cores) for cores in (1, 2, 6, 8)] == [
        (1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8),
    ]  # fmt: skip
