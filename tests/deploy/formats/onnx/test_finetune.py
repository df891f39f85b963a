"""Fine-tuning in int8 writes what it trained, and lessens the noise."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mmeffvit.deploy.agreement import METRIC, fidelity, signal_to_noise
from mmeffvit.deploy.formats.onnx.finetune import (
    FakeQuantized,
    finetune,
    float_weights,
    rounded_value,
)
from mmeffvit.deploy.formats.onnx.quantize import OnnxQuantizer, compared_values
from mmeffvit.deploy.int8.quantize import NOTE, quantize
from mmeffvit.deploy.runtime.sessions import open_model
from mmeffvit.errors import UserError
from tests.deploy import tiny
from tests.deploy.models import SIZE, file_for_one_size, smooth_image
from tests.variants import sampled

onnx = pytest.importorskip('onnx')
pytest.importorskip('onnxruntime')


@pytest.fixture(scope='module')
def quantizer():
    images = [smooth_image(SIZE, 6)[index : index + 1] for index in range(6)]
    return OnnxQuantizer(file_for_one_size('ssdlite_mobilevitv2_050'), images)


def outputs(model, names, images):
    """What ONNX Runtime computes without its own rewriting, which rounds once more in places."""
    onnxruntime = pytest.importorskip('onnxruntime')
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        with_outputs(model, names).SerializeToString(), options, ['CPUExecutionProvider']
    )
    name = session.get_inputs()[0].name
    return [dict(zip(names, session.run(names, {name: image}), strict=True)) for image in images]


def with_outputs(model, names):
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names
    )
    return model


def noise(expected, found):
    """The lowest signal-to-noise ratio of several values, in decibels."""
    return min(
        signal_to_noise([each[name] for each in expected], [each[name] for each in found])
        for name in expected[0]
    )


def test_the_file_computes_what_was_trained(quantizer):
    names = compared_values(quantizer.float_model)
    model = quantizer.quantized(quantizer.nodes)
    early = 'conv2d_4'
    student = FakeQuantized(
        model, [early, *names], float_weights(model, quantizer.float_model), quantizer.weight_bits
    )
    optimizer = torch.optim.Adam(student.parameter_groups())
    for _ in range(3):  # values, scales and zero points leave their start
        found = student(torch.from_numpy(quantizer.images[0]))
        sum(value.square().mean() for value in found.values()).backward()
        optimizer.step()
    model = quantizer.with_constants(student.trained())
    with torch.no_grad():
        found = [student(torch.from_numpy(image)) for image in quantizer.images]
    found = [{name: value.numpy() for name, value in each.items()} for each in found]
    assert noise(outputs(model, [early], quantizer.images), found) > 45
    # ties are rounded either way, depending on the order of sums, and differences grow with depth
    assert noise(outputs(model, names, quantizer.images), found) > 20


def test_every_quantized_constant_is_trained(quantizer):
    names = compared_values(quantizer.float_model)
    model = quantizer.quantized(quantizer.nodes)
    ends = [rounded_value(model, name) for name in names]
    floats = float_weights(model, quantizer.float_model)
    student = FakeQuantized(model, ends, floats, quantizer.weight_bits)
    found = student(torch.from_numpy(quantizer.images[0]))
    sum(value.square().mean() for value in found.values()).backward()
    assert all(value.grad is not None for value in student.parameters())
    values = student.trained()
    rounded = [
        each for each in model.graph.initializer if each.name.endswith(('_quantized', '_scale'))
    ]
    assert {each.name for each in rounded} <= set(values)
    for each in rounded:
        before = onnx.numpy_helper.to_array(each)
        after = values[each.name]
        assert after.dtype == before.dtype
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1)


@pytest.mark.variant
def test_training_lessens_the_noise_of_ranges_that_are_too_wide(quantizer, monkeypatch):
    monkeypatch.setattr('mmeffvit.deploy.formats.onnx.finetune.SCALE_RATE', 0.1)  # they are far off
    names = compared_values(quantizer.float_model)
    expected = outputs(quantizer.float_model, names, quantizer.images)
    model = quantizer.quantized(quantizer.nodes)
    wide = {
        each.name: 8 * onnx.numpy_helper.to_array(each)
        for each in model.graph.initializer
        if each.name.startswith('conv2d') and each.name.endswith('_scale')
    }
    model = quantizer.with_constants(wide)
    before = noise(expected, outputs(model, names, quantizer.images))
    arguments = quantizer.weight_bits, quantizer.images
    trained = finetune(model, quantizer.float_model, names, *arguments, steps=10)
    assert (
        noise(
            expected,
            outputs(quantizer.with_constants({**wide, **trained}), names, quantizer.images),
        )
        > before + 1
    )


@pytest.mark.parametrize('suffix', ['.onnx', pytest.param('.xml', marks=pytest.mark.variant)])
def test_a_file_is_fine_tuned_with_all_layers_in_int8(suffix, tmp_path, folder):
    pytest.importorskip('openvino' if suffix == '.xml' else 'onnxruntime')
    out = tmp_path / f'int8{suffix}'
    options = dict(samples=4, size=tiny.SIZE, allow_slower=True)
    result = quantize(tiny.onnx_file(), folder, out, finetune=3, **options)
    calibrated, finetuned = result.trials
    assert finetuned.attempt.settings == f'{calibrated.attempt.settings}, fine-tuned for 3 steps'
    assert result.chosen is max(result.trials, key=lambda trial: fidelity(trial.measures))
    assert result.chosen.attempt.excluded == ()
    note = json.loads(open_model(out).metadata[NOTE])
    assert note['settings'] == result.chosen.attempt.settings


@pytest.mark.parametrize('values', sampled([[50.0, 60.0], [60.0, 50.0]], [[60.0, 50.0]]))
def test_the_model_with_the_higher_metric_on_labeled_images_is_written(values, tmp_path, folder):
    pytest.importorskip('onnxruntime')
    files = []

    def metric(path: Path) -> float:
        files.append(open_model(path).run(np.zeros((1, 3, *tiny.SIZE), np.float32)))
        return values[len(files) - 1]

    out = tmp_path / 'int8.onnx'
    options = dict(samples=4, size=tiny.SIZE, allow_slower=True, finetune=3, metric=metric)
    result = quantize(tiny.onnx_file(), folder, out, **options)
    assert result.chosen is result.trials[values.index(60.0)]
    assert f'{METRIC} 60' in str(result.chosen)
    written = open_model(out)
    assert json.loads(written.metadata[NOTE])['agreement'][METRIC] == 60
    for name, value in written.run(np.zeros((1, 3, *tiny.SIZE), np.float32)).items():
        np.testing.assert_array_equal(value, files[values.index(60.0)][name])


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(finetune=-1), '--finetune is -1; give the number of steps'),
        (dict(finetune=5, exclude=['conv2d_3']), '--exclude conv2d_3 keeps layers in float'),
    ],
)
def test_options_that_do_not_fit_are_named(options, message, tmp_path, folder):
    with pytest.raises(UserError, match=message):
        quantize(tiny.onnx_file(), folder, tmp_path / 'int8.onnx', **options)


def test_only_onnx_files_are_fine_tuned(tmp_path, folder):
    with pytest.raises(UserError, match=r"--finetune trains \.onnx files, not 'model\.tflite'"):
        quantize('model.tflite', folder, tmp_path / 'int8.tflite', finetune=5)
