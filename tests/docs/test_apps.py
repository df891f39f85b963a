"""The snippets for apps find what Python finds, where their language and runtime are installed."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.deploy.runtime.predictor import paste_mask
from mmeffvit.deploy.write import write
from mmeffvit.utils.boxes import post_process
from tests.conftest import ROOT
from tests.deploy import models
from tests.docs.pages import code_blocks

PAGE = ROOT / 'docs' / 'apps.md'
SHAPE = models.SIZE
THRESHOLD, IOU_THRESHOLD = 0.12, 0.6  # low scores: the weights are random
Objects = tuple[NDArray, NDArray, NDArray]  # boxes, scores, labels

MAIN = {
    'objects': """
        import {readFileSync} from 'node:fs';
        import {open, detect} from './detect.mjs';
        const [model, pixels, ...numbers] = process.argv.slice(2);
        const found = await detect(await open(model), readFileSync(pixels), ...numbers.map(Number));
        for (const {label, score, box} of found) console.log(label, score, ...box);
    """,
    'label map': """
        import {readFileSync} from 'node:fs';
        import {open} from './detect.mjs';
        import {labelMap} from './maps.mjs';
        const [model, pixels, ...size] = process.argv.slice(2);
        const labels = await labelMap(await open(model), readFileSync(pixels), ...size.map(Number));
        console.log(labels.join(' '));
    """,
    'cpp': """
        #include <cstdio>
        #include <cstdlib>
        int main(int count, char** arguments) {
            ncnn::Net net;
            net.load_param(arguments[1]);
            net.load_model(arguments[2]);
            int height = atoi(arguments[4]), width = atoi(arguments[5]);
            std::vector<unsigned char> rgb(3 * height * width);
            FILE* file = fopen(arguments[3], "rb");
            if (fread(rgb.data(), 1, rgb.size(), file) != rgb.size()) return 1;
            ncnn::Mat boxes;
            float limits[] = {strtof(arguments[6], 0), strtof(arguments[7], 0)};
            for (const Found& one :
                 detect(net, rgb.data(), height, width, boxes, limits[0], limits[1]))
                printf("%d %.9g %.9g %.9g %.9g %.9g\\n", one.label, one.score,
                       one.box[0], one.box[1], one.box[2], one.box[3]);
        }
    """,
    'kotlin': """
        fun main(arguments: Array<String>) {
            val (boxes, scores) = arguments.take(2).map { path ->
                java.io.File(path).readLines()
                    .map { line -> line.split(" ").map { it.toFloat() }.toFloatArray() }
                    .toTypedArray()
            }
            for (one in select(boxes, scores, arguments[2].toFloat(), arguments[3].toFloat()))
                println("${one.label} ${one.score} ${one.box.joinToString(" ")}")
        }
    """,
}


def snippet(language: str, containing: str) -> str:
    (found,) = [code for code in code_blocks(PAGE, language) if containing in code]
    return found


def need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f'{program} is not installed')


def run(command: Sequence[object], folder: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[:2000]
    return done.stdout


def assert_same(printed: str, expected: Objects) -> None:
    """Lines of label, score and box, the best first; equal scores in any order."""
    rows = np.array([line.split() for line in printed.splitlines()], dtype=np.float64)
    boxes, scores, labels = expected
    assert len(rows) == len(scores) > 0
    np.testing.assert_allclose(rows[:, 1], scores, atol=1e-4)
    table = np.column_stack([labels, scores, boxes])
    distance = np.abs(rows[:, None] - table[None]).max(axis=2)
    assert max(distance.min(axis=0).max(), distance.min(axis=1).max()) < 0.01


@pytest.fixture(scope='module')
def graph() -> Graph:
    return make_graph(models.tiny('rtmdet_swiftformer_xs'))


@pytest.fixture(scope='module')
def picture() -> NDArray:
    """(H, W, 3), uint8, RGB."""
    return np.random.default_rng(0).integers(0, 256, (*SHAPE, 3), dtype=np.uint8)


def images_of(picture: NDArray) -> NDArray:
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None], dtype=np.float32)


@pytest.fixture(scope='module')
def node_folder() -> Iterator[Path]:
    """A folder with onnxruntime-node, which is too large to be kept."""
    need('node', 'npm')
    with tempfile.TemporaryDirectory() as folder:
        install = ['npm', 'install', '--prefer-offline', '--ignore-scripts', '--silent']
        done = subprocess.run(
            [*install, '--prefix', folder, 'onnxruntime-node@1.30.0'],
            cwd=folder, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f'onnxruntime-node cannot be installed: {done.stderr:.200}')
        yield Path(folder)


def run_javascript(folder: Path, main: str, model: Path, picture: NDArray, *numbers: float) -> str:
    (folder / 'detect.mjs').write_text(snippet('javascript', 'onnxruntime-node'))
    (folder / 'maps.mjs').write_text(snippet('javascript', 'labelMap'))
    (folder / 'main.mjs').write_text(MAIN[main])
    pixels = folder / 'pixels'
    pixels.write_bytes(np.dstack([picture, np.full(SHAPE, 255, np.uint8)]).tobytes())
    return run(['node', 'main.mjs', model, pixels, *SHAPE, *numbers], folder)


@pytest.mark.slow
def test_javascript_finds_the_same(picture, node_folder):
    model = models.file_for_one_size('rtmdet_swiftformer_xs')
    printed = run_javascript(node_folder, 'objects', model, picture, THRESHOLD)
    found = {name: value[0] for name, value in open_onnx(model).run(images_of(picture)).items()}
    kept = found['scores'] > THRESHOLD
    assert_same(printed, tuple(found[name][kept] for name in ('boxes', 'scores', 'labels')))


@pytest.mark.slow
def test_javascript_has_the_same_label_map(picture, node_folder):
    model = models.file_for_one_size('segformer_swiftformer_xs_ade20k')
    printed = run_javascript(node_folder, 'label map', model, picture)
    expected = open_onnx(model).run(images_of(picture))['label_map'][0]
    assert np.array_equal(np.array(printed.split(), dtype=np.int64).reshape(SHAPE), expected)


def test_javascript_pastes_a_mask_as_python_does(tmp_path):
    need('node')
    code = snippet('javascript', 'export function paste')
    (tmp_path / 'maps.mjs').write_text(code.replace("import {tensorOf} from './detect.mjs';", ''))
    generator = np.random.default_rng(0)
    mask = generator.random((28, 28)).astype(np.float32)
    box = (-3.2, 10.7, 61.4, 90.1)  # beyond the left edge
    (tmp_path / 'main.mjs').write_text(f"""
        import {{paste}} from './maps.mjs';
        const inside = paste({mask.ravel().tolist()}, {list(box)}, {SHAPE[0]}, {SHAPE[1]});
        console.log(inside.join(' '));
    """)
    printed = np.array(run(['node', 'main.mjs'], tmp_path).split()).reshape(SHAPE) == '1'
    expected = paste_mask(mask, np.array(box), SHAPE)
    assert expected.any()
    assert (printed != expected).sum() <= 2  # float32 and float64 may differ at the threshold


@pytest.mark.slow
def test_cpp_with_ncnn_finds_the_same(graph, picture, tmp_path):
    need('g++', 'pkg-config')
    for package in ('ncnn', 'pnnx'):
        pytest.importorskip(package)
    flags = subprocess.run(
        ['pkg-config', '--cflags', '--libs', 'ncnn'], capture_output=True, text=True
    )
    if flags.returncode:
        pytest.skip('pkg-config does not know ncnn: its library is not installed')
    write(graph, tmp_path / 'model.param', ExportOptions(SHAPE, 1))
    (tmp_path / 'main.cpp').write_text(snippet('cpp', 'ncnn') + MAIN['cpp'])
    run(['g++', '-fopenmp', '-o', 'main', 'main.cpp', *flags.stdout.split()], tmp_path)
    (tmp_path / 'pixels').write_bytes(picture.tobytes())
    printed = run(
        ['./main', 'model.param', 'model.bin', 'pixels', *SHAPE, THRESHOLD, IOU_THRESHOLD], tmp_path
    )
    found = open_model(tmp_path / 'model.param').run(images_of(picture))
    boxes, scores = (found[name][0] for name in ('boxes', 'scores'))
    assert_same(printed, post_process(boxes, scores, THRESHOLD, IOU_THRESHOLD))


def test_nms_in_kotlin_keeps_the_same(tmp_path):
    need('kotlinc', 'java')
    generator = np.random.default_rng(0)
    corners = generator.uniform(0, 60, (60, 2)).astype(np.float32)
    sides = generator.uniform(20, 50, (60, 2)).astype(np.float32)
    boxes = np.hstack([corners, corners + sides])
    scores = generator.uniform(0, 1, (60, 3)).astype(np.float32)
    for name, values in (('boxes', boxes), ('scores', scores)):
        np.savetxt(tmp_path / name, values, fmt='%.9g')
    (tmp_path / 'main.kt').write_text(snippet('kotlin', 'fun select') + MAIN['kotlin'])
    run(['kotlinc', 'main.kt', '-include-runtime', '-d', 'main.jar'], tmp_path)
    limits = (THRESHOLD, IOU_THRESHOLD)
    printed = run(['java', '-cp', 'main.jar', 'MainKt', 'boxes', 'scores', *limits], tmp_path)
    expected = post_process(boxes, scores, THRESHOLD, IOU_THRESHOLD)
    assert len(expected[1]) < (scores > THRESHOLD).sum()  # NMS removes some
    assert_same(printed, expected)
