"""A small version of the demo: every step, and the contact sheet."""

import re

import cv2
import pytest

from mmeffvit.cli import demo
from mmeffvit.data.shapes import ShapesSpec
from tests.conftest import rejected


def test_a_file_is_not_taken_for_the_folder(tmp_path):
    (tmp_path / 'notes').write_bytes(b'mine')
    assert 'is a file that exists already' in rejected('demo', '--out-dir', tmp_path / 'notes')


@pytest.mark.slow
def test_the_demonstration_ends_with_a_contact_sheet_and_a_table(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(demo, 'num_cores', lambda: 1)  # a process less to start
    spec = ShapesSpec(num_train=16, num_val=12, side=64, max_objects=3)
    metrics = demo.run_demo(tmp_path, spec=spec, epochs=1)
    assert {'coco/bbox_mAP', 'coco/segm_mAP'} <= metrics.keys()
    sheet = cv2.imread(str(tmp_path / 'contact_sheet.png'))
    # six rows and two columns of pairs below captions, and a legend
    assert sheet.shape == (28 + 6 * (22 + 384 + 6) + 34, 2 * (2 * 384 + 6), 3)
    printed, errors = capfd.readouterr()
    assert not re.search('warn|mmengine - ', printed + errors, re.IGNORECASE)
    assert 'epoch 1/1' in printed
    for row in ('box AP', 'mask AP', 'images', 'log', 'checkpoint', 'on COCO'):
        assert f'\n  {row} ' in printed
    assert 'mmeffvit train maskrcnn_swiftformer_xs --cfg-options' in printed
