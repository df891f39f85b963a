"""Words of messages."""

import pytest

from mmeffvit.utils.text import counted


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
