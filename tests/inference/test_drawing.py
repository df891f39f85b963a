"""Drawn predictions: colors, lines and words."""

import colorsys

import numpy as np
import pytest

from mmeffvit.inference.drawing import draw, write
from mmeffvit.inference.results import Detections
from mmeffvit.utils.palette import SAFE, make_palette, with_palette

RED, GREEN = np.array([255, 0, 0]), np.array([0, 255, 0])


def detections(boxes):
    count = len(boxes)
    labels = np.zeros(count, np.int64)
    return Detections(None, None, np.float32(boxes), np.full(count, 0.9), labels, ('cell',))


def area(image, color):
    """Where an image in BGR has a color: the box of these pixels, and their number."""
    rows, columns = np.nonzero((image == color[::-1]).all(axis=2))
    return (columns.min(), rows.min(), columns.max(), rows.max()), len(rows)


def test_two_classes_have_distinct_hues_and_classes_of_others_no_colors():
    coco = [(220, 20, 60)] * 80
    for palette in (make_palette(None, 2), make_palette(coco, 2), make_palette('coco', 2)):
        hues = [colorsys.rgb_to_hsv(*color)[0] for color in palette[:2] / 255]
        assert 0.25 < abs(hues[0] - hues[1]) < 0.75
    assert make_palette(coco, 80).tolist() == [list(color) for color in coco]
    assert len(with_palette(dict(classes=('thing',) * 90, palette=coco))['palette']) >= 90


@pytest.mark.parametrize('background', SAFE[:7])
def test_the_first_colors_differ_from_the_images(background):
    palette = make_palette(None, 3, np.array(background))
    assert np.abs(palette[:3].astype(int) - background).sum(axis=1).min() > 100
    assert {*map(tuple, palette[: len(SAFE)].tolist())} == {*SAFE}


def test_names_are_in_the_image_and_do_not_cover_each_other():
    canvas = np.zeros((80, 120, 3), np.uint8)
    box = (100, 2, 118, 60)
    drawn = write(canvas, [('first', box, RED), ('second', box, GREEN)], 12)
    first, second = (area(drawn, color)[0] for color in (RED, GREEN))
    assert first[3] < second[1] or second[3] < first[1]
    assert max(first[2], second[2]) < 120
    long, _ = area(write(canvas, [('a very long name of a class', box, RED)], 12), RED)
    assert long[2] - long[0] < 120


def test_many_objects_have_a_legend_and_small_ones_thin_lines():
    canvas = np.zeros((800, 800, 3), np.uint8)
    (color, *_) = palette = np.array([[255, 0, 0]], np.uint8)
    few = [(400, 300 + 40 * i, 420, 320 + 40 * i) for i in range(3)]
    many = [(400, 300 + 20 * i, 420, 316 + 20 * i) for i in range(20)]
    assert area(draw(canvas, detections(few), palette), color)[0][1] > 250
    assert area(draw(canvas, detections(many), palette), color)[0][:2] == (0, 0)
    small, large = (
        (draw(canvas, detections([box]), palette) == color[::-1]).all(axis=2)[box[1] + 2 :].sum()
        for box in ((300, 300, 316, 316), (300, 300, 500, 500))
    )
    assert small < 3 * 17  # three edges below the name
    assert large > 1.5 * 3 * 200
