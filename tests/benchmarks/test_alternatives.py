"""Our models and those of mmdet and mmseg: the same boundary, published accuracies."""

import pytest
import torch

from benchmarks import alternatives
from benchmarks.alternatives import ENTRIES, accuracy_of, head_of, pareto, verdict

SSDLITE, RTMDET = 'ssdlite_mobilevitv2_050', 'rtmdet_swiftformer_xs'
MOBILENET, TINY = 'ssdlite_mobilenetv2-scratch_8xb24-600e_coco', 'rtmdet_tiny_8xb32-300e_coco'
ROW = {
    'seconds': {SSDLITE: [0.01, 0.02, 0.03], RTMDET: [0.1], MOBILENET: [0.04], TINY: [0.2]},
    'accuracy': {
        SSDLITE: [21.2, 'COCO', 'a table'],
        RTMDET: None,
        MOBILENET: [21.3, 'COCO', 'a page'],
        TINY: [40.9, 'COCO', 'a page'],
    },
}


def test_no_model_of_the_front_is_beaten_in_both():
    points = {'slow': (3.0, 30.0), 'fast': (1.0, 20.0), 'worse': (2.0, 19.0), 'equal': (1.0, 20.0)}
    assert pareto(points) == ['fast', 'slow']
    assert pareto({}) == []


def test_a_sentence_names_gains_and_losses():
    said = verdict(SSDLITE, 'detection', ROW)
    assert '2.00 times as fast as SSDLite, MobileNetV2 with -0.1 points' in said
    assert '10.00 times as fast as RTMDet-tiny with -19.7 points' in said
    assert said.endswith('on the Pareto front.')
    assert 'no published accuracy; times as fast as' in verdict(RTMDET, 'detection', ROW)
    slower = {**ROW, 'seconds': {**ROW['seconds'], SSDLITE: [0.05]}}
    assert 'beaten in both by SSDLite, MobileNetV2' in verdict(SSDLITE, 'detection', slower)


@pytest.mark.parametrize('task', ENTRIES)
def test_rivals_have_published_accuracies(task):
    for entry in ENTRIES[task]:
        known = accuracy_of(entry, task)
        assert entry.is_ours or 0 < known[0] < 100


@pytest.mark.parametrize('entry', [ENTRIES['detection'][4], ENTRIES['segmentation'][1]])
def test_a_network_ends_with_the_outputs_of_its_head(entry):
    head = head_of(entry)
    x = torch.rand(1, 3, 96, 96)
    with torch.no_grad():
        outputs = head(x)
        maps = head.model.extract_feat(x)
    if hasattr(head.model, 'decode_head'):
        assert outputs[0].shape == (1, 150, *maps[-1].shape[2:])
    else:
        scores, boxes = outputs[: len(maps)], outputs[len(maps) :]
        assert [score.shape[1] for score in scores] == [6 * 81] * 6
        assert [box.shape[2:] for box in boxes] == [level.shape[2:] for level in maps]


def test_a_report_has_a_row_per_model_and_a_plot(tmp_path):
    text = '\n'.join(alternatives.render({'detection': ROW}))
    assert (
        '| SSDLite, MobileViTv2-0.5 | mmeffvit | 320 x 320 | 20.0 (10.0) | 21.2 (COCO; a ' in text
    )
    assert '| RTMDet, SwiftFormer-XS | mmeffvit | 640 x 640 | 100 (100) |  |  |' in text
    alternatives.draw({'detection': ROW}, tmp_path)
    assert (tmp_path / 'detection_accuracy_latency.png').stat().st_size > 10_000
