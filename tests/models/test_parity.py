"""Every family that timm has gives its maps and gradients on the same weights."""

import pytest
import torch
from torch import nn

from mmeffvit.models import Backbone, families
from mmeffvit.models.layers.grid import Gridded
from tests.models.declared import DECLARED
from tests.models.parity import assert_same_maps, load_from, randomized
from tests.variants import sampled

FAMILIES = {name: known for name, known in DECLARED.items() if known.timm}
CASES = [(name, arch) for name in FAMILIES for arch in families()[name].variants]
FIRST = [(name, next(iter(families()[name].variants))) for name in FAMILIES]
SIZES = ((224, 224), (97, 161))
FIXED_SIZES = ((224, 224), (192, 320))  # of families whose tables have a size in timm
GRADIENT_SIZE = (96, 160)


def pair(timm, folder, name: str, arch: str, size: tuple[int, int]) -> tuple[Backbone, nn.Module]:
    """Our backbone and timm's with the same random weights."""
    known = FAMILIES[name]
    own, other = (dict(resolution=size), dict(img_size=size)) if known.has_timm_size else ({}, {})
    theirs = randomized(timm.create_model(known.timm_name(arch), **other))
    ours = families()[name](arch, **known.timm_options, **own)
    return load_from(ours, theirs, folder), theirs


@pytest.mark.parametrize(('name', 'arch'), sampled(CASES, FIRST))
def test_maps_equal_those_of_timm(timm, tmp_path, name, arch):
    for size in FIXED_SIZES if FAMILIES[name].has_timm_size else SIZES:
        ours, theirs = pair(timm, tmp_path, name, arch, size)
        assert_same_maps(ours, theirs, torch.randn(1, 3, *size), FAMILIES[name].timm_indices)


@pytest.mark.parametrize(('name', 'arch'), FIRST)
def test_gradients_equal_those_of_timm(timm, tmp_path, name, arch):
    """Gradients of a scalar of all maps, with respect to the image and all parameters.

    In float64: in the gradient of SwiftFormer's scores larger terms cancel, so that
    timm's own float32 value is off by more than the tolerance of the maps.
    """
    tolerance, indices = 1e-9, FAMILIES[name].timm_indices
    ours, theirs = (m.double() for m in pair(timm, tmp_path, name, arch, GRADIENT_SIZE))
    load_from(ours, theirs, tmp_path)
    x = torch.randn(2, 3, *GRADIENT_SIZE, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    maps = theirs.forward_intermediates(x, indices=indices, intermediates_only=True)
    sum(m.tanh().sum() for m in maps).backward()
    sum(m.tanh().sum() for m in ours(y)).backward()
    assert (x.grad - y.grad).abs().max() <= tolerance * x.grad.abs().max()
    # convert their gradients like weights, with the same key table, and compare
    expected = {k: v.grad for k, v in theirs.named_parameters() if v.grad is not None}
    gradients = {name: parameter.grad.clone() for name, parameter in ours.named_parameters()}
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name in expected:
                parameter.copy_(expected[name])
    load_from(ours, theirs, tmp_path)
    # softmax is invariant to a bias of the keys: its gradient is rounding error
    noise = 1e-6 * max(p.abs().max() for p in ours.parameters())
    for name, parameter in ours.named_parameters():
        largest = max(parameter.abs().max(), noise)
        assert (gradients[name] - parameter).abs().max() <= tolerance * largest, name


@pytest.mark.parametrize(('name', 'arch'), [c for c in FIRST if FAMILIES[c[0]].has_timm_size])
def test_tables_are_resized_to_the_resolution_on_loading(timm, tmp_path, log, name, arch):
    """A backbone for another size has the maps of one that resizes in every forward."""
    theirs = randomized(timm.create_model(FAMILIES[name].timm_name(arch)))
    size = (256, 448)
    x, maps = torch.randn(1, 3, *size), []
    for options in ({}, dict(resolution=size)):
        ours = load_from(families()[name](arch, **options), theirs, tmp_path)
        with torch.no_grad():
            maps.append(ours(x))
    for feature, other in zip(*maps, strict=True):
        torch.testing.assert_close(feature, other)
    num_tables = sum(isinstance(module, Gridded) for module in ours.modules())
    assert f'{num_tables} of them resized' in log.text
