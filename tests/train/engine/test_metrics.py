"""Metrics as papers have them."""

from mmeffvit.train.engine.metrics import in_percent


def test_fractions_become_percent_and_what_papers_lack_is_left_out():
    found = {
        'coco/bbox_mAP': 0.0123,
        'coco/bbox_mAP_50': 0.5,
        'coco/segm_mAP': -1.0,
        'mIoU': 35.216,
    }
    assert in_percent(found) == {'box AP': 1.2, 'mIoU': 35.22}
