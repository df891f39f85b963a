"""Static int8 files and their reports."""

import json
import time
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest

from mmeffvit.data.files import find_images
from mmeffvit.deploy.agreement import agreement, signal_to_noise
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.quantize import Quantizer as OnnxQuantizer
from mmeffvit.deploy.formats.onnx.rewrite import resize_in_two_steps
from mmeffvit.deploy.formats.openvino.open import core
from mmeffvit.deploy.formats.openvino.quantize import Quantizer as OpenVINOQuantizer
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.int8.quantize import NOTE, divide, quantize
from mmeffvit.deploy.int8.sensitivity import Group, exclusions, measure
from mmeffvit.deploy.int8.trials import milliseconds
from mmeffvit.deploy.runtime.resizing import reader_of
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError
from tests.conftest import output_of
from tests.deploy import tiny
from tests.deploy.onnx_files import write_onnx
from tests.variants import sampled

SHORT = dict(samples=4, size=tiny.SIZE, allow_slower=True)


@pytest.fixture(scope='module')
def quantizer():
    return OnnxQuantizer(tiny.onnx_file(), [image[None] for image in tiny.images(4).numpy()])


def int8_nodes(model) -> list:
    made = {out: node for node in model.graph.node for out in node.output}
    return [
        node
        for node in model.graph.node
        if node.op_type in ('Conv', 'MatMul')
        and node.input[1] in made
        and made[node.input[1]].op_type == 'DequantizeLinear'
    ]


def test_an_int8_file_is_accurate_small_and_records_how_it_was_made(tmp_path, folder):
    out = tmp_path / 'int8.onnx'
    printed = output_of(
        'quantize', tiny.onnx_file(), folder, out, '--max-images', 4, '--exclude', 'none',
        '--shape', *tiny.SIZE, '--allow-slower',
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ['int8.onnx']
    model = onnx.load(out)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata['note'] == 'kept'
    assert metadata['task'] == 'features'
    said = json.loads(metadata[NOTE])
    assert (said['calibrated'], said['held_out'], said['excluded']) == (4, 2, [])
    assert said['agreement']['stride_8: signal-to-noise ratio, dB'] > 20
    assert 'stride_8: signal-to-noise ratio, dB' in printed
    # a scale per output channel, and the file still takes images of any size and number
    sizes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    weights = [
        node.input
        for node in model.graph.node
        if node.op_type == 'DequantizeLinear' and len(sizes.get(node.input[0], ())) == 4
    ]
    assert len(weights) == len(int8_nodes(model)) > 10
    assert all(sizes[scale][0] == sizes[weight][0] for weight, scale, _ in weights)
    shape = open_onnx(out).run(np.zeros((2, 3, 80, 112), np.float32))['stride_4'].shape
    assert shape == (2, 16, 20, 28)
    assert out.stat().st_size < tiny.onnx_file().stat().st_size


def test_named_nodes_stay_in_float(tmp_path, folder, quantizer):
    out = tmp_path / 'int8.onnx'
    kept = quantizer.nodes[:2]
    report = quantize(tiny.onnx_file(), folder, out, exclude=kept, **SHORT)
    assert report.chosen.attempt.excluded == tuple(kept)
    assert report.chosen.attempt.quantized == len(quantizer.nodes) - 2
    assert not {node.name for node in int8_nodes(onnx.load(out))}.intersection(kept)


def test_the_search_finds_the_part_that_suffers_from_int8(quantizer):
    noise = quantizer.noise_meter()
    groups = measure(quantizer.nodes, noise, count=4)
    assert [name for group in groups for name in group.nodes] == quantizer.nodes
    worst = max(groups, key=lambda group: group.noise)
    best = min(groups, key=lambda group: group.noise)

    def without(group: Group) -> float:
        return noise([name for name in quantizer.nodes if name not in group.nodes])

    assert without(worst) < without(best) <= noise(quantizer.nodes) * 1.1


def test_more_and_more_noisy_groups_stay_in_float():
    even = [Group((str(i),), 1e-3) for i in range(16)]
    assert list(exclusions(even)) == []
    loud = [
        Group((name, f'{name}2'), noise) for name, noise in (('a', 0.1), ('b', 0.3), ('c', 0.2))
    ]
    assert list(exclusions([*even, *loud])) == [
        ['b', 'b2'],
        ['b', 'b2', 'c', 'c2'],
        ['b', 'b2', 'c', 'c2', 'a', 'a2'],
    ]
    assert [len(names) for names in exclusions([*even[:4], *loud])] == [2]  # at most a quarter


@pytest.mark.variant
def test_without_a_suffix_the_faster_route_is_written(tmp_path, folder):
    pytest.importorskip('nncf')
    report = quantize(tiny.onnx_file(), folder, tmp_path / 'int8', **SHORT)
    assert {trial.kind.suffix for trial in report.trials} == {'.onnx', '.xml'}
    agreeing = [trial for trial in report.trials if trial.agrees]
    assert report.chosen == max(agreeing, key=lambda trial: trial.speed)
    assert report.out == tmp_path / f'int8{report.chosen.kind.suffix}'
    names = ['int8.bin', 'int8.xml'] if report.chosen.kind.suffix == '.xml' else ['int8.onnx']
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_an_openvino_file_is_accurate_small_and_records_how_it_was_made(tmp_path, folder):
    pytest.importorskip('nncf')
    out = tmp_path / 'int8.xml'
    report = quantize(tiny.onnx_file(), folder, out, **SHORT)
    session = open_model(out)
    said = json.loads(session.metadata[NOTE])
    assert session.metadata['note'] == 'kept'
    assert said['runtime'] == 'OpenVINO'
    assert said['agreement']['stride_8: signal-to-noise ratio, dB'] > 20
    assert said['tried'] == [str(trial) for trial in report.trials]
    image = tiny.images().numpy()
    expected, found = open_model(tiny.onnx_file()).run(image), session.run(image)
    assert min(signal_to_noise([expected[k]], [found[k]]) for k in expected) > 20
    weights = out.with_suffix('.bin').stat().st_size
    assert weights < tiny.onnx_file().stat().st_size / 2
    assert report.sizes[1] == weights + out.stat().st_size


@pytest.mark.parametrize('suffix', sampled(['.onnx', '.xml'], ['.onnx']))
def test_a_file_that_does_not_agree_is_not_written(suffix, tmp_path, folder):
    pytest.importorskip('nncf')
    with pytest.raises(
        UserError, match=r'agrees with it \(signal-to-noise ratio, dB 90 needed'
    ) as caught:
        quantize(tiny.onnx_file(), folder, tmp_path / f'out{suffix}', min_agreement=90, **SHORT)
    assert 'layers in float' in str(caught.value)  # what was tried
    assert not list(tmp_path.iterdir())


def test_objects_count_only_if_masks_agree_and_there_are_any():
    one = objects(([0, 0, 10, 10], 0.9, 1)) | {'masks': np.ones((1, 1, 4, 4), np.float32)}
    other = one | {'masks': np.full((1, 1, 4, 4), 0.4, np.float32)}
    assert all(each.agrees for each in agreement([one], [one]))
    assert not all(each.agrees for each in agreement([one], [other]))
    more = objects(([0, 0, 10, 10], 0.9, 1), ([50, 50, 60, 60], 0.9, 1), ([80, 80, 90, 90], 0.9, 1))
    plain = objects(([0, 0, 10, 10], 0.9, 1))
    assert not all(each.agrees for each in agreement([plain], [more]))
    assert not all(each.agrees for each in agreement([plain], [plain], score_thr=0.95))


def test_a_folder_without_images_and_one_with_a_single_image_are_rejected(tmp_path, folder):
    (tmp_path / 'notes.txt').write_text('nothing to see')
    with pytest.raises(UserError, match='has no image'):
        quantize(tiny.onnx_file(), tmp_path, tmp_path / 'out.onnx')
    with pytest.raises(UserError, match='has one image'):
        divide(find_images(folder)[:1], 4)
    with pytest.raises(UserError, match='no images are given; at least two are needed'):
        divide([], 4)
    calibration, held_out = divide(find_images(folder), 64)
    assert len(calibration) == 4
    assert len(held_out) == 2
    assert not set(calibration).intersection(held_out)
    many = [Path(f'{i}') for i in range(1000)]
    numbers = [int(path.name) for path in divide(many, 10)[1]]
    assert max(np.diff([0, *numbers, 1000])) < 40


def test_weights_of_another_file_are_not_overwritten(folder, tmp_path):
    (tmp_path / 'out.bin').write_bytes(b'of another file')
    with pytest.raises(UserError, match=r'out\.bin would be overwritten with .*out\.xml'):
        quantize(tiny.onnx_file(), folder, tmp_path / 'out.xml', size=tiny.SIZE)


def test_images_are_read_as_given_in_the_metadata(tmp_path):
    path = tmp_path / 'blue.png'
    cv2.imwrite(str(path), np.full((50, 50, 3), (200, 10, 0), np.uint8))  # BGR
    metadata = dict(
        resize=json.dumps(dict(scale=[133, 80], keep_ratio=True)), mean='[1, 2, 3]', pad_value='2'
    )
    any_size = ('batch', 3, 'height', 'width')
    assert reader_of(any_size, metadata)(path).shape == (1, 3, 80, 80)
    picture = reader_of((1, 3, 64, 96), metadata)(path)
    assert picture.shape == (1, 3, 64, 96)
    assert picture[0, :, 5, 5].tolist() == [0, 10, 200]
    assert picture[0, :, 5, 90].tolist() == [3, 4, 5]  # as the predictor pads
    np.testing.assert_array_equal(reader_of(any_size, metadata, (64, 96))(path), picture)
    # without metadata, the image is stretched to the size of the input
    assert reader_of((1, 3, 64, 96), {})(path)[0, :, 5, 90].tolist() == [0, 10, 200]
    with pytest.raises(UserError, match='--shape HEIGHT WIDTH'):
        reader_of(any_size, {})
    with pytest.raises(UserError, match='takes images of 64 x 96'):
        reader_of((1, 3, 64, 96), {}, (32, 32))


def objects(*rows: tuple) -> dict[str, np.ndarray]:
    boxes, scores, labels = zip(*rows, strict=True)
    return dict(
        boxes=np.array([boxes], np.float32),
        scores=np.array([scores], np.float32),
        labels=np.array([labels]),
    )


def test_objects_are_matched_by_label_and_overlap():
    one = objects(([0, 0, 10, 10], 0.9, 1), ([20, 20, 30, 30], 0.8, 2), ([0, 0, 5, 5], 0.1, 1))
    other = objects(
        ([20, 20, 30, 29], 0.6, 2),
        ([0, 0, 10, 10], 0.5, 0),  # another label
        ([0, 0, 10, 6], 0.2, 1),  # its score fell below the threshold
    )
    measures = {each.name: each.value for each in agreement([one], [other], score_thr=0.3)}
    assert measures['objects'] == 2
    assert measures['matched objects'] == 1
    assert measures['new objects'] == 1
    assert measures['largest score difference'] == pytest.approx(0.7)
    assert measures['mean IoU of the boxes'] == pytest.approx((0.9 + 0.6) / 2)


def test_label_maps_agree_by_pixels_and_by_class():
    one, other = np.zeros((2, 1, 4, 4), np.int64)
    other[0, 0] = 1
    found = agreement([{'label_map': one}], [{'label_map': other}])
    measures = {each.name: each.value for each in found}
    assert str(found[0]) == 'pixel agreement 75 % (minimum 95 %)'
    assert measures['pixel agreement'] == 0.75
    assert measures['mean IoU of the label maps'] == pytest.approx((12 / 16 + 0) / 2)


def test_noise_of_a_tenth_of_the_values_is_20_decibels():
    values = np.ones((1, 1, 4, 4), np.float32)
    measures = {
        each.name: each.value for each in agreement([{'map': values}], [{'map': 1.1 * values}])
    }
    assert measures['map: lowest cosine similarity'] == pytest.approx(1)
    assert measures['map: signal-to-noise ratio, dB'] == pytest.approx(20, abs=1e-4)


MAKE = onnx.helper.make_node
IMAGES = [np.random.default_rng(i).random((1, 3, 8, 8), np.float32) for i in range(2)]
WEIGHT = np.random.default_rng(0).normal(size=(3, 3, 1, 1)).astype(np.float32)
CONSTANTS = dict(first=3 * WEIGHT, second=WEIGHT[::-1].copy(), val_3=np.ones(3, np.float32))


def quantizer_of(path: Path, *nodes: onnx.NodeProto) -> OnnxQuantizer:
    """Write a graph from 'images' to 'maps', and open it."""
    write_onnx(path, nodes, {'maps': 'float32'}, CONSTANTS, shape=('n', 3, 8, 8))
    return OnnxQuantizer(path, IMAGES)


def assert_near(model: onnx.ModelProto, path: Path, tolerance: float) -> None:
    """A model gives the maps of a file, up to a part of the largest value."""
    sources = model.SerializeToString(), path
    found, expected = (open_onnx(source).run(IMAGES[0])['maps'] for source in sources)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_copies_of_a_shared_constant_get_names_of_their_own(tmp_path):
    """Without a rename, the copy of ``val_3`` would be ``val_30``, as another tensor is called."""
    quantizer = quantizer_of(
        tmp_path / 'shared.onnx',
        MAKE('Conv', ['images', 'first', 'val_3'], ['val_30'], 'one'),
        MAKE('Conv', ['val_30', 'second', 'val_3'], ['maps'], 'two'),
    )
    assert quantizer.nodes == ['one', 'two']
    assert_near(quantizer.quantized(quantizer.nodes), tmp_path / 'shared.onnx', 0.05)


def sources_of(model: onnx.ModelProto) -> dict[str, list[str | None]]:
    """The types of the nodes that the inputs of each node come from, by its name."""
    made = {out: node.op_type for node in model.graph.node for out in node.output}
    return {node.name: [made.get(i) for i in node.input] for node in model.graph.node}


def test_silu_after_a_convolution_is_int8_and_a_gate_is_float(tmp_path):
    quantizer = quantizer_of(
        tmp_path / 'silu.onnx',
        MAKE('Conv', ['images', 'first'], ['x'], 'one'),
        MAKE('Sigmoid', ['x'], ['share'], 'silu_sigmoid'),
        MAKE('Mul', ['x', 'share'], ['activated'], 'silu_product'),
        MAKE('Conv', ['activated', 'second'], ['y'], 'two'),
        MAKE('Sigmoid', ['y'], ['gate'], 'gate'),
        MAKE('Mul', ['images', 'gate'], ['maps'], 'gated'),
    )
    model = quantizer.quantized(['one', 'two'])
    sources = sources_of(model)
    assert sources['silu_sigmoid'] == ['DequantizeLinear']
    assert sources['silu_product'] == ['DequantizeLinear'] * 2
    assert sources['gated'][1] == 'Sigmoid'
    assert_near(model, tmp_path / 'silu.onnx', 0.02)
    kept = quantizer.quantized(['two'])  # the activation of a convolution in float is float
    assert {n.name: n.input[0] for n in kept.graph.node}['silu_sigmoid'] == 'x'


def test_gelu_after_a_convolution_is_int8_by_its_sigmoid_approximation(tmp_path):
    quantizer = quantizer_of(
        tmp_path / 'gelu.onnx',
        MAKE('Conv', ['images', 'first'], ['x'], 'one'),
        MAKE('Gelu', ['x'], ['activated'], 'gelu'),
        MAKE('Conv', ['activated', 'second'], ['maps'], 'two'),
    )
    model = quantizer.quantized(quantizer.nodes)
    assert 'Gelu' not in {node.op_type for node in model.graph.node}
    sources = sources_of(model)
    assert sources['activated_gate'] == ['DequantizeLinear']
    assert sources['activated'] == ['DequantizeLinear'] * 2
    # the sigmoid reads the bytes of x with a scale of its own
    assert [n.op_type for n in model.graph.node].count('Mul') == 1
    assert_near(model, tmp_path / 'gelu.onnx', 0.02)
    kept = quantizer.quantized(['two'])
    assert sources_of(kept)['activated_gate'] == ['Mul']
    assert_near(kept, tmp_path / 'gelu.onnx', 0.02)


def test_the_convolution_of_the_image_is_float(quantizer):
    names = [node.name for node in quantizer.float_model.graph.node if node.op_type == 'Conv']
    assert quantizer.nodes == names[1:]


DETECTOR = (
    MAKE('Conv', ['images', 'first'], ['x'], 'one'),
    MAKE('Sigmoid', ['x'], ['share'], 'sigmoid'),
    MAKE('Mul', ['x', 'share'], ['activated'], 'product'),
    MAKE('Conv', ['activated', 'second'], ['y'], 'two'),
    MAKE('Shape', ['x'], ['k'], start=0, end=1),
    MAKE('TopK', ['y', 'k'], ['maps', 'best'], axis=1),
)


def test_the_last_1x1_convolution_of_a_detector_and_silu_before_it_are_float(tmp_path):
    quantizer = quantizer_of(tmp_path / 'detector.onnx', *DETECTOR)
    assert quantizer.nodes == ['one']
    sources = sources_of(quantizer.quantized(['one']))
    assert sources['product'] == ['DequantizeLinear', 'Sigmoid']
    assert sources['two'][0] == 'Mul'


def test_the_last_1x1_convolution_of_a_detector_reads_floats_in_openvino(tmp_path):
    pytest.importorskip('nncf')
    quantizer_of(tmp_path / 'detector.onnx', *DETECTOR)
    quantizer = OpenVINOQuantizer(tmp_path / 'detector.onnx', IMAGES)
    next(quantizer.attempts()).save(tmp_path / 'int8.xml', {})
    operators = core().read_model(tmp_path / 'int8.xml').get_ordered_ops()
    first, last = (op for op in operators if op.get_type_name() == 'Convolution')
    assert first.get_friendly_name() in quantizer.nodes
    assert first.input_value(0).get_node().get_type_name() == 'FakeQuantize'
    assert last.input_value(0).get_node().get_type_name() == 'Swish'


@pytest.mark.parametrize('positions', ['half_pixel', 'align_corners'])
def test_logits_resized_in_two_steps_have_the_same_label_map(tmp_path, positions):
    sizes = np.int64([2, 5, 21, 40])
    resize = dict(mode='linear', coordinate_transformation_mode=positions)
    one = write_onnx(
        tmp_path / 'one.onnx',
        [
            MAKE('Resize', ['images', '', '', 'sizes'], ['resized'], **resize),
            MAKE('ArgMax', ['resized'], ['labels'], axis=1, keepdims=0),
        ],
        {'labels': 'int64'},
        dict(sizes=sizes),
        shape=(2, 5, 'h', 'w'),
    )
    two = resize_in_two_steps(onnx.load(one))
    assert [n.op_type for n in two.graph.node].count('Resize') == 2
    logits = np.random.default_rng(0).normal(size=(2, 5, 6, 9)).astype(np.float32)
    maps = [open_onnx(source).run(logits)['labels'] for source in (one, two.SerializeToString())]
    assert maps[0].shape == (2, 21, 40)
    np.testing.assert_array_equal(*maps)


def test_short_runs_are_timed_by_a_clock_that_counts_in_steps(monkeypatch):
    clock = time.process_time
    monkeypatch.setattr(time, 'process_time', lambda: clock() // 0.01 * 0.01)
    image = np.ones((1, 3, 64, 64), np.float32)
    once, often = (
        Session(image.shape, ('y',), {}, lambda images, n=n: {'y': sum([images] * n)})
        for n in (10, 400)
    )
    short, long = milliseconds([once, often], image)
    assert 0 < short < long / 10
