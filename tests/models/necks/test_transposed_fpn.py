"""The feature pyramid of SHViT's authors: level sizes, equality with mmdet's FPN, bad input."""

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


def test_parameters_are_as_counted_from_the_official_code():
    def count(**options) -> int:
        return sum(p.numel() for p in TransposedFPN((224, 336, 448), **options).parameters())

    assert count(num_finer=2) == 3_734_016
    assert count(num_finer=1, coarser=True) == 3_913_984


def test_without_finer_levels_it_equals_mmdets_fpn():
    from mmdet.models.necks import FPN

    ours = TransposedFPN((8, 12, 16), 4, num_finer=0, coarser=True)
    theirs = FPN([8, 12, 16], 4, num_outs=4, add_extra_convs='on_input')
    convs = [*ours.lateral, *ours.output, ours.coarser]
    for conv, other in zip(convs, [*theirs.lateral_convs, *theirs.fpn_convs], strict=True):
        other.conv.load_state_dict(conv.state_dict())
    x = maps()
    for level, other in zip(ours(x), theirs(x), strict=True):
        assert torch.equal(level, other)


def test_finer_levels_come_from_the_finest_lateral_after_the_sum():
    neck = TransposedFPN((8, 12, 16), 4, num_finer=2)
    x = maps()
    levels = neck(x)
    bare = TransposedFPN((8, 12, 16), 4, num_finer=0)
    bare.load_state_dict(neck.state_dict(), strict=False)
    bare.output = torch.nn.ModuleList(torch.nn.Identity() for _ in range(3))
    finer = neck.upsample[0](bare(x)[0])
    torch.testing.assert_close(levels[1], neck.output[1](finer))
    torch.testing.assert_close(levels[0], neck.output[0](neck.upsample[1](finer)))


def test_every_parameter_is_initialized_and_used():
    neck = TransposedFPN((8, 12, 16), 4, num_finer=1, coarser=True)
    neck.init_weights()
    assert neck.lateral[0].weight.abs().max() <= (6 / (8 + 4)) ** 0.5  # Xavier's bound
    assert neck.lateral[0].bias.abs().max() == neck.upsample[0].bias.abs().max() == 0
    sum(level.sum() for level in neck(maps())).backward()
    assert all(p.grad is not None for p in neck.parameters())


def test_bad_input_is_named():
    with pytest.raises(ValueError, match='num_finer -1'):
        TransposedFPN((8,), num_finer=-1)
    with pytest.raises(ValueError, match='got 2 feature maps; in_channels has 3'):
        TransposedFPN((8, 12, 16), 4)(maps()[:2])
