"""Words of messages."""

from mmeffvit.utils.text import align, listed, markdown


def test_a_name_with_a_line_break_splits_neither_lists_nor_tables():
    rows = [('cat\ndog', '1'), ('bird', '20')]
    assert listed(['cat\ndog', '\x1b[2J']) == r'cat\ndog, \x1b[2J'
    assert align(rows) == [r'cat\ndog   1', 'bird      20']
    table = markdown(('class', 'count'), rows).splitlines()
    assert table[2:] == [r'| cat\ndog | 1 |', '| bird | 20 |']
