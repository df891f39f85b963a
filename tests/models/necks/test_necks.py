"""Level sizes of the necks, their definitions and gradients; test_fusion.py fuses them.

Values of `TransposedFPN` are compared with the authors' in tests/released.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmeffvit.models.necks import LightPAN, SimpleFeaturePyramid, TransposedFPN
from mmeffvit.models.necks.light_pan import FinerLevel

CHANNELS = (8, 12, 16)
SIZES = [(26, 20), (13, 10), (7, 5)]  # an odd side is rounded up
FINER, FINEST, COARSER = (52, 40), (104, 80), (4, 3)
BOTH = dict(finer=True, coarser=True)


def maps() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, c, *size) for c, size in zip(CHANNELS, SIZES, strict=True)]


@pytest.mark.parametrize(
    ('neck', 'sizes'),
    [
        (LightPAN(CHANNELS, 8), SIZES),
        (LightPAN(CHANNELS, 8, finer=True), [FINER, *SIZES]),
        (LightPAN(CHANNELS, 8, coarser=True), [*SIZES, COARSER]),
        (LightPAN(CHANNELS, 8, **BOTH), [FINER, *SIZES, COARSER]),
        (TransposedFPN(CHANNELS, 8, num_finer=2), [FINEST, FINER, *SIZES]),
        (TransposedFPN(CHANNELS, 8, num_finer=1, coarser=True), [FINER, *SIZES, COARSER]),
    ],
)
def test_levels_are_the_maps_and_those_that_are_added(neck, sizes):
    levels = neck(maps())
    assert [tuple(level.shape) for level in levels] == [(2, 8, *size) for size in sizes]
    sum(level.square().sum() for level in levels).backward()
    assert [name for name, p in neck.named_parameters() if p.grad is None] == []


def test_every_level_of_light_pan_depends_on_every_map():
    neck, inputs = LightPAN(CHANNELS, 8, **BOTH).eval(), maps()
    for x in inputs:
        x.requires_grad_()
    for level in neck(inputs):
        gradients = torch.autograd.grad(level.abs().sum(), inputs, retain_graph=True)
        assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_a_finer_level_has_channels_of_its_own_for_each_new_pixel():
    level = FinerLevel(8).eval()
    pixels = level[1](level[0](torch.randn(1, 8, 1, 1)))
    assert pixels.shape == (1, 2, 2, 2)
    assert len(pixels.unique()) == 8


def test_transposed_fpn_starts_as_that_of_the_authors():
    neck = TransposedFPN((8, 12, 16), 4, num_finer=1, coarser=True)
    neck.init_weights()
    assert neck.lateral[0].weight.abs().max() <= (6 / (8 + 4)) ** 0.5  # Xavier's bound
    assert neck.lateral[0].bias.abs().max() == neck.upsample[0].bias.abs().max() == 0


def test_pretrained_weights_of_transposed_fpn_stay(tmp_path):
    saved, neck = (TransposedFPN((8, 12), 4) for _ in range(2))
    torch.save({f'neck.{key}': value for key, value in saved.state_dict().items()}, tmp_path / 'a')
    neck.init_cfg = dict(type='Pretrained', checkpoint=str(tmp_path / 'a'), prefix='neck.')
    for _ in range(2):
        neck.init_weights()
        found = neck.state_dict()
        assert all(torch.equal(found[key], value) for key, value in saved.state_dict().items())


def norm(x: Tensor) -> Tensor:
    """Over the channels of each cell."""
    return F.layer_norm(x.movedim(1, 3), x.shape[1:2], eps=1e-6).movedim(3, 1)


def defined(neck: SimpleFeaturePyramid, x: Tensor) -> list[Tensor]:
    """The levels as ViTDet defines them, with the weights of ``neck`` (new norms are 1 and 0)."""
    weights = dict(neck.named_parameters())

    def up(x: Tensor, name: str) -> Tensor:
        w, b = weights[f'resize.{name}.weight'], weights[f'resize.{name}.bias']
        return F.conv_transpose2d(x, w, b, stride=2)

    resized = [up(F.gelu(norm(up(x, '0.0'))), '0.3'), up(x, '1'), x, F.max_pool2d(x, 2)]
    levels = []
    for i, level in enumerate(resized):
        level = norm(F.conv2d(level, weights[f'output.{i}.0.weight']))
        levels.append(norm(F.conv2d(level, weights[f'output.{i}.2.weight'], padding=1)))
    return [*levels, levels[-1][:, :, ::2, ::2]]


def test_levels_of_a_simple_pyramid_are_those_of_its_definition_and_rounded_up():
    neck = SimpleFeaturePyramid([16], 8, num_outs=5).double()
    x = torch.randn(2, 16, 4, 6, dtype=torch.float64)
    for level, other in zip(neck([x]), defined(neck, x), strict=True):
        torch.testing.assert_close(level, other)
    sizes = [tuple(level.shape[2:]) for level in neck([x.new_zeros(1, 16, 5, 7)])]
    assert sizes == [(20, 28), (10, 14), (5, 7), (3, 4), (2, 2)]
