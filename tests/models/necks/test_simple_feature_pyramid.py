"""ViTDet's pyramid: level sizes, equality with its definition, bad input."""

import torch
import torch.nn.functional as F
from torch import Tensor

from mmeffvit.models.necks import SimpleFeaturePyramid


def norm(x: Tensor) -> Tensor:
    """Over the channels of each cell."""
    mean, var = x.mean(dim=1, keepdim=True), x.var(dim=1, keepdim=True, unbiased=False)
    return (x - mean) / (var + 1e-6).sqrt()


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


def test_levels_are_those_of_its_definition():
    neck = SimpleFeaturePyramid([16], 8, num_outs=5).double()
    x = torch.randn(2, 16, 4, 6, dtype=torch.float64)
    for level, other in zip(neck([x]), defined(neck, x), strict=True):
        torch.testing.assert_close(level, other)


def test_odd_maps_are_rounded_up():
    levels = SimpleFeaturePyramid([16], 8, num_outs=6)([torch.randn(1, 16, 5, 7)])
    sizes = [tuple(level.shape) for level in levels]
    assert sizes == [(1, 8, *size) for size in [(20, 28), (10, 14), (5, 7), (3, 4), (2, 2), (1, 1)]]
