"""Contact sheets."""

import numpy as np
import torch
from mmengine.structures import BaseDataElement, InstanceData

from mmeffvit.analysis.contact_sheet import legend, montage, pair_of_boxes, tile


def test_pictures_are_in_rows_below_the_title():
    pictures = [np.full((10, 20, 3), value, np.uint8) for value in (10, 20, 30)]
    sheet = montage(pictures, columns=2, title='t')
    assert sheet.shape == (28 + 2 * 16, 2 * 26, 3)
    assert sheet[28, 0, 0] == 10
    assert sheet[28, 26, 0] == 20
    assert sheet[44, 0, 0] == 30
    assert sheet[44, 26, 0] == 255  # no fourth picture


def test_pictures_of_any_size_are_centered_in_equal_tiles():
    for shape in ((10, 20), (20, 10), (20, 20)):
        picture = np.zeros((*shape, 3), np.uint8)
        whole = tile(picture, 'caption', (20, 20))
        assert whole.shape == (22 + 20, 20, 3)
        rows, columns = np.nonzero((whole[22:] == 0).all(axis=2))
        assert rows.min() + rows.max() == columns.min() + columns.max() == 19


def test_misses_and_false_alarms_are_crossed_and_make_an_image_worse():
    def pair(*found):
        sample = BaseDataElement(metainfo=dict(img_path='a/b.jpg'))
        boxes = torch.tensor([[0.0, 0, 20, 20], [30, 30, 50, 50]])
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor([0, 1]))
        boxes, scores, labels = map(torch.tensor, zip(*found, strict=True))
        sample.pred_instances = InstanceData(bboxes=boxes.float(), scores=scores, labels=labels)
        return pair_of_boxes(np.zeros((60, 60, 3), np.uint8), sample, ('a', 'b'))

    hit, other = ((1, 0, 20, 20), 0.5, 0), ((30, 30, 50, 50), 0.9, 1)
    missed, false = pair(hit, ((30, 30, 50, 50), 0.9, 0), ((0, 0, 20, 20), 0.2, 0)).crossed
    assert missed.tolist() == [False, True]
    assert false.tolist() == [True, False]  # in descending order of scores, without the last
    assert pair(hit, other).errors == 0 < pair(hit).errors < pair((*hit[:2], 1)).errors == 1


def test_a_legend_is_as_wide_as_its_sheet_and_has_every_color():
    colors = np.random.default_rng(0).integers(0, 255, (20, 3))
    drawn = legend([('a long name of a class', color) for color in colors], 400)
    assert drawn.shape[1] == 400
    assert {tuple(color) for color in colors} <= {tuple(pixel) for pixel in drawn.reshape(-1, 3)}
