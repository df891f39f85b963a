"""Cells of a map are drawn at their position in the image."""

import pytest

from mmeffvit.analysis.attention import Canvas


@pytest.mark.parametrize(
    ('side', 'cells', 'size', 'stride'),
    [
        (640, 80, 8, 8),
        (225, 8, 32, 32),  # rounded up: the last cell is partly outside
        (33, 2, 32, 32),
        (32, 1, 32, 32),
        (224, 8, 28, 32),  # MobileViTv2 has stretched seven cells to eight
    ],
)
def test_a_cell_has_the_size_of_its_stride(side, cells, size, stride):
    canvas = Canvas(side, side)
    assert canvas.pitches((cells, cells)) == (size, size)
    assert canvas.stride((cells, cells)) == stride


def test_the_cell_of_the_query_point_is_counted_row_by_row():
    grid = (4, 6)  # of 32 pixels
    assert Canvas(100, 190, (0, 0)).query_index(grid) == 0
    assert Canvas(100, 190, (31.9, 32)).query_index(grid) == 6
    assert Canvas(100, 190, (189, 99)).query_index(grid) == 23


@pytest.mark.parametrize('query', [(190, 0), (0, 100), (-1, 0)])
def test_a_query_point_outside_is_rejected(query):
    with pytest.raises(ValueError, match=r'x in \[0, 190\) and y in \[0, 100\)'):
        Canvas(100, 190, query)
