"""Contact sheets."""

import numpy as np

from mmeffvit.analysis.contact_sheet import montage, tile


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
