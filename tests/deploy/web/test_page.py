"""The page finds in Chromium what the predictor finds in Python, and shows texts as texts."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

from mmeffvit import ExportedPredictor
from mmeffvit.deploy.runtime.metadata import NO_RESIZE
from mmeffvit.deploy.runtime.resizing import resize
from mmeffvit.deploy.web import page, runtime
from mmeffvit.inference.results import Detections
from tests.deploy import models
from tests.deploy.onnx_files import red_file
from tests.deploy.web.browser import Tab, open_tab, serve

DETECTOR, SEGMENTOR = 'ssdlite_mobilevitv2_050', 'segformer_swiftformer_xs_ade20k'
HOSTILE = ['<script>window.hacked = 1</script>', '<img src=x onerror="window.hacked = 1">'] * 3


@pytest.fixture(scope='module')
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    options = ['--host-resolver-rules=MAP page.test 127.0.0.1']
    with open_tab(tmp_path_factory.mktemp('profile'), options) as tab:
        yield tab


@pytest.fixture
def write(runtime_files, tmp_path, monkeypatch) -> Callable[[Path], Path]:
    """Writes the page of a model with its runtime, and returns the folder."""
    monkeypatch.setattr(page, 'fetch_runtime', lambda: runtime_files)  # once for all tests

    def write(model: Path) -> Path:
        page.write_page(model, tmp_path / 'page', bundle=True)
        return tmp_path / 'page'

    return write


def assert_same_objects(found: list[dict[str, Any]], expected: Detections) -> None:
    """Same number, and each has its counterpart of the same class; scores 1e-3, IoU 0.99."""
    assert len(found) == len(expected.scores) > 0
    left = list(range(len(found)))
    for i, (label, score) in enumerate(zip(expected.labels, expected.scores, strict=True)):
        match = next(
            j
            for j in left
            if found[j]['label'] == label
            and abs(found[j]['score'] - score) < 1e-3
            and np.abs(np.subtract(found[j]['box'], expected.boxes[i])).max() < 0.05
        )
        left.remove(match)
        if expected.masks is not None:
            pasted = np.zeros_like(expected.masks[i])
            mask = found[match]['mask']
            region = np.array(mask['inside'], dtype=bool).reshape(mask['height'], mask['width'])
            end = mask['top'] + mask['height'], mask['left'] + mask['width']
            pasted[mask['top'] : end[0], mask['left'] : end[1]] = region
            union = (pasted | expected.masks[i]).sum()
            assert (pasted & expected.masks[i]).sum() >= 0.99 * union


@pytest.mark.slow
def test_objects_are_those_of_the_predictor_and_hostile_names_are_texts(
    tab, write, picture, tmp_path
):
    model = tmp_path / '<i>model.onnx'
    renamed = onnx.load(models.file_for_one_size(DETECTOR))
    assert 'NonZero' in {node.op_type for node in renamed.graph.node}  # it selects by score
    said = {item.key: item.value for item in renamed.metadata_props}
    onnx.helper.set_model_props(renamed, {**said, 'classes': json.dumps(HOSTILE[:5])})
    onnx.save(renamed, model)
    expected = ExportedPredictor(model)(picture)
    with serve(write(model)) as address:
        assert tab.open(address) == 'ready'
        found = tab.choose(picture)
        assert_same_objects(found['prediction']['objects'], expected)
        text = tab.evaluate("""(() => {
            const slider = document.getElementById('threshold');
            slider.value = 0;
            slider.dispatchEvent(new Event('input'));
            return document.body.innerText;
        })()""")
        rows = tab.evaluate("document.querySelectorAll('#results li').length")
        assert rows == len(expected.scores)
        assert all(HOSTILE[label] in text for label in set(expected.labels))
        assert text.startswith('<i>model.onnx')
        assert tab.evaluate("document.querySelectorAll('body script, img, i').length") == 0
        assert tab.evaluate('window.hacked') is None
    assert 'Content Security Policy' not in ''.join(tab.messages)


@pytest.mark.slow
def test_masks_are_those_of_the_predictor_and_the_camera_and_the_keyboard_work(
    tab, write, picture, tmp_path
):
    model = models.file_for_one_size(models.MASK_RCNN)
    expected = ExportedPredictor(model)(picture)
    assert expected.masks.any()
    with serve(write(model)) as address:
        assert tab.open(address) == 'ready'
        assert_same_objects(tab.choose(picture)['prediction']['objects'], expected)
        focused = []
        for _ in range(3):
            for kind in ('rawKeyDown', 'keyUp'):
                tab.send('Input.dispatchKeyEvent', type=kind, key='Tab', windowsVirtualKeyCode=9)
            focused.append(tab.evaluate('document.activeElement.id'))
        assert focused == ['file', 'camera', 'threshold']
        nodes = tab.send('Accessibility.getFullAXTree')['nodes']
        named = {
            (node['role']['value'], node['name']['value'])
            for node in nodes
            if node.get('role', {}).get('value') in ('slider', 'button', 'image')
        }
        summary = tab.evaluate("document.getElementById('summary').textContent")
        assert named == {
            ('button', 'Choose an image'),
            ('button', 'Start the camera'),
            ('slider', 'Score threshold'),
            ('image', summary),
        }
        frames = tab.evaluate("""new Promise((done) => {
            const camera = document.getElementById('camera');
            const frames = [];
            document.addEventListener('prediction', ({detail}) => {
                frames.push(detail.milliseconds);
                if (frames.length === 2) camera.click(), done(frames);
            });
            camera.click();
        })""")
        assert len(frames) == 2
        assert tab.evaluate("document.getElementById('camera').textContent") == 'Start the camera'


@pytest.mark.slow
def test_a_label_map_is_that_of_the_predictor(tab, write, picture, tmp_path):
    model = models.file_for_one_size(SEGMENTOR)
    expected = ExportedPredictor(model)(picture)
    with serve(write(model)) as address:
        assert tab.open(address) == 'ready'
        found = tab.choose(picture)
        assert tab.evaluate("document.getElementById('threshold-row').hidden")
    labels = np.reshape(found['prediction']['labelMap'], expected.labels.shape)
    assert len(np.unique(labels)) > 1
    assert (labels != expected.labels).mean() < 1e-3


def test_without_a_secure_context_the_page_says_so_and_offers_to_take_a_picture(
    tab, write, picture, tmp_path
):
    model = red_file(tmp_path / 'model.onnx')
    with serve(write(model)) as address:
        assert tab.open(address.replace('127.0.0.1', 'page.test')) == 'ready'
        assert 'WebGPU needs https' in tab.evaluate('document.body.innerText')
        assert 'Take a picture' in tab.evaluate('document.body.innerText')
        assert tab.evaluate("document.getElementById('camera').hidden")
        labels = tab.choose(picture)['prediction']['labelMap']
        assert np.array_equal(np.reshape(labels, (72, 96)), cv2.imread(str(picture))[..., 2])
        text = picture.with_name('text.txt')
        text.write_text('no picture')
        with pytest.raises(AssertionError, match=r'text\.txt is not an image'):
            tab.choose(text)


def test_another_runtime_than_the_recorded_one_is_not_run(tab, write, tmp_path):
    folder = write(red_file(tmp_path / 'model.onnx'))
    binary = folder / runtime.BUILDS['wasm'][1]
    binary.write_bytes(binary.read_bytes() + b'\0')
    with serve(folder) as address:
        assert tab.open(address) == 'failed'
        assert 'the runtime cannot be loaded' in tab.evaluate('document.body.innerText')


def test_without_its_cdn_the_page_names_the_option_that_bundles_the_runtime(tmp_path):
    out = tmp_path / 'page'
    page.write_page(red_file(tmp_path / 'model.onnx'), out)
    options = ('--host-resolver-rules=MAP cdn.jsdelivr.net 127.0.0.1:9',)
    with serve(out) as address, open_tab(tmp_path / 'profile', options) as tab:
        assert tab.open(address) == 'failed'
        text = tab.evaluate('document.body.innerText')
    assert 'cannot be loaded from https://cdn.jsdelivr.net' in text
    assert 'mmeffvit web MODEL OUT_DIR --bundle' in text


CLICKED_TWICE = """(async () => {
    const devices = navigator.mediaDevices, ask = devices.getUserMedia.bind(devices);
    const streams = [], camera = document.getElementById('camera');
    devices.getUserMedia = async (wanted) => (streams.push(await ask(wanted)), streams.at(-1));
    const seen = new Promise((done) => document.addEventListener('prediction', done));
    camera.click();
    camera.click();
    await seen;
    const running = streams.map((stream) => stream.active);
    camera.click();
    return [running, streams.map((stream) => stream.active)];
})()"""


def test_a_second_click_while_the_camera_starts_opens_no_second_stream(tab, write, tmp_path):
    with serve(write(red_file(tmp_path / 'model.onnx'))) as address:
        assert tab.open(address) == 'ready'
        running, stopped = tab.evaluate(CLICKED_TWICE)
    assert (sum(running), sum(stopped)) == (1, 0)


WEBGPU = ('--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-features=Vulkan')
AT_ONCE = """(async () => {
    const {Model} = await import('./model.js');
    const page = await (await fetch('page.json')).json();
    const model = await new Promise((done, fail) => {
        const made = new Model(page, () => {}, () => done(made), fail);
    });
    const image = (red) => new ImageData(new Uint8ClampedArray(4 * 64 * 64).fill(red), 64, 64);
    const found = await Promise.allSettled([1, 2, 3, 4].map((red) => model.run(image(red))));
    return found.map((each) => each.reason?.message ?? each.value.prediction.labelMap[5]);
})()"""
WHILE_THE_CAMERA_RUNS = """void (window.ended = new Promise((done) => {
    const [status, error] = ['status', 'error'].map((id) => document.getElementById(id));
    setInterval(() => {
        if (!error.hidden || status.textContent === 'noise.png') done(error.textContent);
    }, 20);
    document.getElementById('camera').click();
}))"""


def test_webgpu_runs_images_one_after_the_other_also_a_file_chosen_while_the_camera_runs(
    write, picture, tmp_path
):
    folder = write(red_file(tmp_path / 'model.onnx'))
    with serve(folder) as address, open_tab(tmp_path / 'profile', WEBGPU) as tab:
        assert tab.open(f'{address}?runtime=webgpu') == 'ready'
        if tab.evaluate("document.getElementById('backend').textContent") != 'WebGPU.':
            pytest.skip('this Chromium has no WebGPU')
        assert tab.evaluate(AT_ONCE) == [1, 2, 3, 4]
        tab.evaluate(WHILE_THE_CAMERA_RUNS)
        tab.evaluate("new Promise((done) => document.addEventListener('prediction', done))")
        tab.give(picture)
        assert tab.evaluate('window.ended') == ''


def make_certificate(path: Path) -> Path:
    """A certificate and its key, which no browser trusts."""
    if not shutil.which('openssl'):
        pytest.skip('openssl is not installed')
    command = 'openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -keyout - -out -'
    path.write_bytes(subprocess.run(command.split(), check=True, capture_output=True).stdout)
    return path


def test_the_runtime_of_the_cdn_runs_and_wasm_takes_over_where_webgpu_fails(
    runtime_files, picture, tmp_path
):
    out, cdn = tmp_path / 'page', tmp_path / 'cdn'
    page.write_page(red_file(tmp_path / 'model.onnx'), out)
    folder = cdn / 'npm' / f'{runtime.PACKAGE}@{runtime.VERSION}' / 'dist'
    folder.mkdir(parents=True)
    for name, content in runtime_files.items():
        (folder / name).write_bytes(content + b' ' * (name == runtime.BUILDS['webgpu'][0]))
    certificate = make_certificate(tmp_path / 'certificate')
    with serve(out) as address, serve(cdn, certificate) as other:
        options = (
            f'--host-resolver-rules=MAP cdn.jsdelivr.net {other.split("/")[2]}',
            '--ignore-certificate-errors', *WEBGPU,
        )  # fmt: skip
        with open_tab(tmp_path / 'profile', options) as tab:
            assert tab.open(f'{address}?runtime=webgpu') == 'ready'
            said = tab.evaluate("document.getElementById('backend').textContent")
            assert re.match(
                r'WASM: WebGPU failed \(the runtime cannot be loaded from https://cdn', said
            )
            labels = tab.choose(picture)['prediction']['labelMap']
            assert np.array_equal(np.reshape(labels, (72, 96)), cv2.imread(str(picture))[..., 2])


RESIZES = [
    (dict(), None),
    (dict(scale=[133, 80], keep_ratio=True), None),
    (dict(scale=[40, 31]), None),
    (dict(scale=[61, 47], keep_ratio=True, truncated=True, divisor=8), None),
    (dict(scale=[61, 47], keep_ratio=True, divisor=8, rounding='up'), None),
    (dict(scale=[50, 50], keep_ratio=True, pad=[64, 56], pad_value=[1, 2, 3]), None),
    (dict(scale=[50, 40], keep_ratio=True, pad_to_square=True, pad_value=[1, 2.5, 3.5]), None),
    (dict(scale=[50, 40], pad_divisor=32, pad_value=300), None),
    (dict(pad_to_square=True, pad_divisor=10), None),
    (dict(divisor=50, pad_divisor=32, pad_value=[1.5, 2.25, 3.0]), None),
    (dict(keep_ratio=True, pad_divisor=32, pad_value=[1, 2, 3]), (60, 100)),
    (dict(keep_ratio=True), (60, 100)),
    (dict(), (36, 48)),
    (dict(keep_ratio=True, divisor=8, rounding='up'), (76, 90)),
    (dict(keep_ratio=True, divisor=8), (76, 90)),
    *((dict(scale=[51, 150], backend='pillow', interpolation=kernel), None)
      for kernel in ('bilinear', 'bicubic', 'lanczos')),
]  # fmt: skip


def test_pictures_are_resized_as_in_python(tab, picture, tmp_path):
    folder = tmp_path / 'page'
    page.write_page(red_file(tmp_path / 'model.onnx'), folder)
    image = cv2.imread(str(picture))[..., ::-1]
    pixels = np.dstack([image, np.full((72, 96), 255, np.uint8)])
    with serve(folder) as address:
        tab.send('Page.navigate', url=f'{address}style.css')
        for how, fixed in RESIZES:
            settings = {**NO_RESIZE, **how}
            expected = resize(image[..., ::-1], settings, fixed, (7, 8, 9))
            ours = dict(fixed=fixed, fill=[9, 8, 7], resize=settings)
            ours['resize']['pad_value'] = page.rgb(settings['pad_value'])
            code = f"""import('./resizing.js').then(({{resize, planar}}) => {{
                const picture = {{data: new Uint8Array({pixels.ravel().tolist()}),
                                  height: 72, width: 96, channels: 4}};
                const found = resize(picture, {json.dumps(ours)});
                return {{...found, image: [...planar(found.image)]}};
            }})"""
            found = tab.evaluate(code)
            channels = expected.image[..., ::-1].transpose(2, 0, 1)
            values = np.float32(found['image']).reshape(channels.shape)
            # sums of floats may be rounded in another order
            limit = 1e-4 if channels.dtype == np.float32 else 0
            assert np.abs(values - channels).max() <= limit, (how, fixed)
            assert tuple(found['content']) == expected.content
            assert np.allclose(found['factors'], expected.factors)
