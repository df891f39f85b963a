"""The feature pyramid of SHViT's authors: level sizes, initial values, bad input.

Its values are compared with the authors' in tests/released.
"""

import pytest
import torch

from mmeffvit.models.necks import TransposedFPN

SIZES = [(50, 84), (25, 42), (13, 21)]  # of an image of 800 x 1344 at strides 16, 32 and 64


def maps(channels=(8, 12, 16)) -> list[torch.Tensor]:
    return [torch.randn(1, c, *size) for c, size in zip(channels, SIZES, strict=True)]


@pytest.mark.parametrize(
    ('options', 'sizes'),
    [
        (dict(num_finer=2), [(200, 336), (100, 168), *SIZES]),
        (dict(num_finer=1, coarser=True), [(100, 168), *SIZES, (7, 11)]),
    ],
    ids=['Mask R-CNN', 'RetinaNet'],
)
def test_levels_have_the_official_sizes(options, sizes):
    neck = TransposedFPN((8, 12, 16), 4, **options)
    assert [tuple(level.shape[2:]) for level in neck(maps())] == sizes


def test_every_parameter_is_initialized_and_used():
    neck = TransposedFPN((8, 12, 16), 4, num_finer=1, coarser=True)
    neck.init_weights()
    assert neck.lateral[0].weight.abs().max() <= (6 / (8 + 4)) ** 0.5  # Xavier's bound
    assert neck.lateral[0].bias.abs().max() == neck.upsample[0].bias.abs().max() == 0
    sum(level.sum() for level in neck(maps())).backward()
    assert all(p.grad is not None for p in neck.parameters())
