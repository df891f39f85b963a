"""Files for LiteRT, run on this CPU."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmeffvit.deploy.formats.litert.open import LABELS, open_litert
from mmeffvit.deploy.formats.litert.write import GPU_OPERATORS, count_operators, to_litert
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from mmeffvit.utils.boxes import post_process
from tests.deploy import models, tiny

SHAPE = (64, 96)


class Unsupported(nn.Module):
    output_names = ('out',)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return (torch.linalg.svdvals(images),)


class Rejected(nn.Module):
    output_names = ('map', 'best')

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return images.unflatten(2, (2, -1)).sin().flatten(2), images.flatten(1).topk(4).values


@pytest.fixture(scope='module')
def detector(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module, str]:
    """The tiny RTMDet as a file, its graph and the report."""
    pytest.importorskip('litert_torch')
    graph = make_graph(models.tiny('rtmdet_swiftformer_xs'))
    out = tmp_path_factory.mktemp('litert') / 'model.tflite'
    metadata = dict(classes='["a", "b", "c", "d", "e"]')
    said = str(write(graph, out, ExportOptions(SHAPE, 1), metadata))
    return out, graph, said


def test_a_detector_ends_in_boxes_and_scores_and_its_objects_agree(detector):
    out, _, said = detector
    assert 'it returns the boxes of all priors, before NMS' in said
    assert re.search(r'unmatched objects 0 .*\n.*box error.*\n.*score error', said), said
    found = open_litert(out).run(tiny.images().numpy())
    priors = sum(np.prod([-(-side // stride) for side in SHAPE]) for stride in (8, 16, 32))
    assert {name: value.shape for name, value in found.items()} == {
        'boxes': (1, priors, 4),
        'scores': (1, priors, 5),
    }
    with pytest.raises(UserError, match=r'takes images of \(1, 3, 64, 96\)'):
        open_litert(out).run(np.zeros((1, 3, 32, 32), np.float32))


def test_a_gpu_delegate_takes_every_operator(detector):
    out, _, said = detector
    operators, rejected = count_operators(out)
    assert rejected == {}
    assert set(operators) <= GPU_OPERATORS
    assert operators['CONV_2D'] > 40
    assert f'a GPU delegate takes {operators.total()} of' in said


def test_metadata_and_labels_are_in_the_file(detector):
    out, *_ = detector
    metadata = open_litert(out).metadata
    assert metadata['input_layout'] == 'BHWC float32'
    assert metadata['outputs'] == '["boxes", "scores"]'
    assert zipfile.ZipFile(out).read(LABELS).decode().split() == list('abcde')


def test_post_processing_in_numpy_finds_the_objects_of_the_graph(detector):
    out, graph, _ = detector
    images = tiny.images()
    found = open_litert(out).run(images.numpy())
    given = (found['boxes'][0], found['scores'][0], 0.145, graph.test_cfg.nms.iou_threshold)
    boxes, scores, labels = post_process(*given)
    with torch.no_grad():
        expected = [value[0].numpy() for value in graph(images)]
    kept = expected[1] > 0.145
    assert kept.sum() > 3
    np.testing.assert_allclose(scores, expected[1][kept], atol=1e-5)
    np.testing.assert_allclose(boxes, expected[0][kept], atol=1e-2)
    assert labels.tolist() == expected[2][kept].tolist()


def test_rejected_operators_are_counted_by_name(tmp_path):
    pytest.importorskip('litert_torch')
    said = to_litert(tiny.export(Rejected()), tmp_path / 'model.tflite', {})
    assert 'SORT' in said or 'TOPK' in said
    assert re.search(r'others: .*with 5 axes', said), said


def test_an_operator_that_cannot_be_converted_is_reported_in_one_line(tmp_path):
    pytest.importorskip('litert_torch')
    with pytest.raises(UserError, match=r'cannot be converted to LiteRT: .*svd') as caught:
        to_litert(tiny.export(Unsupported()), tmp_path / 'model.tflite', {})
    assert '\n' not in str(caught.value)
    assert not list(tmp_path.iterdir())
