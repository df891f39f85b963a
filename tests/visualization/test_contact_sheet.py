"""Contact sheets."""

import numpy as np

from mmeffvit.visualization.contact_sheet import montage


def test_pictures_are_in_rows_below_the_title():
    pictures = [np.full((10, 20, 3), value, np.uint8) for value in (10, 20, 30)]
    sheet = montage(pictures, columns=2, title='t')
    assert sheet.shape == (28 + 2 * 16, 2 * 26, 3)
    assert sheet[28, 0, 0] == 10
    assert sheet[28, 26, 0] == 20
    assert sheet[44, 0, 0] == 30
    assert sheet[44, 26, 0] == 255  # no fourth picture
