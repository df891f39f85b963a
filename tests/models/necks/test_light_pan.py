"""The neck of GFLite: level sizes, information from every map, fusing, bad input."""

import pytest
import torch

from mmeffvit.deploy import fuse
from mmeffvit.models.necks import LightPAN
from mmeffvit.models.necks.light_pan import FinerLevel
from tests.models.parity import randomized

CHANNELS = (8, 12, 16)
SIZES = [(26, 20), (13, 10), (7, 5)]  # an odd side is rounded up


def maps() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, c, *size) for c, size in zip(CHANNELS, SIZES, strict=True)]


@pytest.mark.parametrize(
    ('options', 'sizes'),
    [
        (dict(finer=True), [(52, 40), *SIZES]),
        (dict(coarser=True), [*SIZES, (4, 3)]),
        (dict(finer=True, coarser=True), [(52, 40), *SIZES, (4, 3)]),
        ({}, SIZES),
    ],
)
def test_levels_are_the_maps_and_those_that_are_added(options, sizes):
    levels = LightPAN(CHANNELS, 8, **options)(maps())
    assert [tuple(level.shape) for level in levels] == [(2, 8, *size) for size in sizes]


def test_every_level_depends_on_every_map_and_trains_every_parameter():
    neck, inputs = LightPAN(CHANNELS, 8, finer=True, coarser=True).eval(), maps()
    for x in inputs:
        x.requires_grad_()
    levels = neck(inputs)
    for level in levels:
        gradients = torch.autograd.grad(level.abs().sum(), inputs, retain_graph=True)
        assert all(gradient.abs().sum() > 0 for gradient in gradients)
    sum(level.square().sum() for level in levels).backward()
    assert [name for name, p in neck.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize('added', [True, False])
def test_fused_it_has_no_norms_and_gives_the_same(added):
    neck = randomized(LightPAN(CHANNELS, 8, finer=added, coarser=added)).double()
    fused, inputs = fuse(neck), [x.double() for x in maps()]
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fused.modules())
    with torch.no_grad():
        for level, expected in zip(fused(inputs), neck(inputs), strict=True):
            torch.testing.assert_close(level, expected)


def test_a_finer_level_has_channels_of_its_own_for_each_new_pixel():
    level = FinerLevel(8).eval()
    pixels = level[1](level[0](torch.randn(1, 8, 1, 1)))
    assert pixels.shape == (1, 2, 2, 2)
    assert len(pixels.unique()) == 8
