"""Detectors for phones: the same last steps for all, a table, a bound and a plot."""

import torch
from torch import nn

from benchmarks import phones
from benchmarks.phones import DETECTORS, YOLOXGraph

LIGHT, PICODET = 'GFLite, SHViT-S1, 320', 'PicoDet-S, 320'
ROWS = {
    'ONNX Runtime': dict(
        seconds={LIGHT: [0.01], PICODET: [0.008]}, failed={'D-FINE-N, 640': 'why'}, absent=[]
    )
}


def test_boxes_of_yolox_are_those_of_mmdet():
    from mmdet.registry import MODELS
    from mmengine.config import ConfigDict
    from mmengine.registry import init_default_scope

    init_default_scope('mmdet')
    sizes = dict(num_classes=3, in_channels=4, feat_channels=4, strides=(8, 16))
    head = MODELS.build(
        ConfigDict(type='YOLOXHead', **sizes, test_cfg=dict(phones.TEST_CFG))
    ).eval()

    graph = YOLOXGraph.__new__(YOLOXGraph)
    nn.Module.__init__(graph)
    graph.head = head
    priors = torch.rand(7, 4) * 16 + 1
    deltas = torch.randn(1, 7, 4)
    found = graph.decode(priors[None], deltas)
    torch.testing.assert_close(found, head._bbox_decode(priors, deltas))


def test_every_rival_has_a_published_accuracy_with_its_source():
    for each in DETECTORS:
        assert bool(each.box_ap) == bool(each.source)
        assert each.box_ap or each.package == 'mmeffvit'


def test_a_report_has_times_accuracies_and_the_bound(tmp_path):
    text = '\n'.join(phones.render(ROWS))
    assert f'| {LIGHT} | mmeffvit | 10.0 (10.0) | not trained on COCO |  |' in text
    assert f'| {PICODET} | libreyolo | 8.00 (8.00) | 27.1 | PaddleDetection model zoo |' in text
    assert '- ONNX Runtime: D-FINE-N, 640 failed: why' in text
    (target,) = phones.targets(ROWS)
    assert target.value == '0.80'
    assert not target.reached
    phones.draw(ROWS, tmp_path)
    assert (tmp_path / phones.PLOT).stat().st_size > 10_000
