"""Words of messages."""

import pytest

from mmeffvit.utils.text import align, counted, listed, markdown


@pytest.mark.parametrize(
    ('number', 'noun', 'text'),
    [
        (1, 'image', '1 image'),
        (0, 'image', '0 images'),
        (2500, 'image', '2,500 images'),
        (2, 'class', '2 classes'),
        (2, 'epoch', '2 epochs'),
        (3, 'box', '3 boxes'),
    ],
)
def test_one_is_singular_and_all_others_are_plural(number, noun, text):
    assert counted(number, noun) == text


def test_a_name_with_a_line_break_splits_neither_lists_nor_tables():
    rows = [('cat\ndog', '1'), ('bird', '20')]
    assert listed(['cat\ndog', '\x1b[2J']) == r'cat\ndog, \x1b[2J'
    assert align(rows) == [r'cat\ndog   1', 'bird      20']
    table = markdown(('class', 'count'), rows).splitlines()
    assert table[2:] == [r'| cat\ndog | 1 |', '| bird | 20 |']
