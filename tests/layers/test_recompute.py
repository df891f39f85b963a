"""Activations that are made again in backward: the same gradients from fewer stored maps."""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from mmeffvit.layers.conv import ConvNorm
from mmeffvit.layers.recompute import activations_kept, chain, conv_of
from mmeffvit.layers.regularization import LayerScale


def stored_bytes(run) -> int:
    """Bytes of the distinct storages that backward keeps, by address."""
    stored = {}

    def pack(tensor):
        stored[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(stored.values())


@pytest.mark.parametrize('act', [nn.GELU(), nn.SiLU(), nn.ReLU()])
def test_gradients_are_those_of_the_plain_composition(act):
    conv = nn.Conv2d(4, 6, 3, padding=1).double()
    x = torch.randn(2, 4, 5, 7, dtype=torch.double, requires_grad=True)
    inputs = (x, *conv.parameters())
    ours = torch.autograd.grad(conv_of(act, conv, x).square().sum(), inputs)
    plain = torch.autograd.grad(conv(act(x)).square().sum(), inputs)
    for a, b in zip(ours, plain, strict=True):
        assert torch.equal(a, b)


class CountedGELU(nn.GELU):
    runs = 0

    def forward(self, x):
        self.runs += 1
        return super().forward(x)


def test_the_activation_is_made_again_for_the_convolution():
    act, conv = CountedGELU(), nn.Conv2d(4, 4, 1)
    x = torch.randn(1, 4, 8, 8, requires_grad=True)
    y = conv_of(act, conv, x)
    assert act.runs == 1
    y.sum().backward()
    assert act.runs == 2
    with torch.no_grad():
        conv_of(act, conv, x)
    assert act.runs == 3


def test_where_blocks_are_made_again_everything_is_kept_as_torch_does():
    act, conv = nn.SiLU(), nn.Conv2d(4, 4, 1)
    x = torch.randn(1, 4, 8, 8, requires_grad=True)

    def kept():
        with activations_kept():
            conv_of(act, conv, x)

    plain = stored_bytes(lambda: conv(act(x)))
    assert stored_bytes(kept) == plain


def test_a_chain_equals_its_layers_one_after_another():
    layers = nn.ModuleList(
        [ConvNorm(3, 6, 3, act=nn.GELU), ConvNorm(6, 6, 3, groups=6, act=nn.GELU), ConvNorm(6, 4)]
    ).double()
    x = torch.randn(2, 3, 6, 6, dtype=torch.double, requires_grad=True)
    expected = x
    for layer in layers:
        expected = layer(expected)
    ours = chain(x, *layers)
    assert torch.equal(ours, expected)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (ours, expected)]
    assert torch.equal(*gradients)


def test_a_scale_inside_the_convolution_equals_the_one_after_it():
    conv, scale = nn.Conv2d(3, 5, 1).double(), LayerScale(5).double()
    nn.init.normal_(scale.scale)
    x = torch.randn(2, 3, 4, 4, dtype=torch.double)
    inputs = (*conv.parameters(), scale.scale)
    inside, after = scale.after(conv)(x), scale(conv(x))
    torch.testing.assert_close(inside, after)
    for a, b in zip(
        torch.autograd.grad(inside.square().sum(), inputs),
        torch.autograd.grad(after.square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_mixed_precision_gives_the_gradients_of_mixed_precision():
    act, conv = nn.GELU(), nn.Conv2d(4, 4, 1)
    x = torch.randn(1, 4, 8, 8, requires_grad=True)
    with torch.autocast('cpu', torch.bfloat16):
        ours, plain = conv_of(act, conv, x), conv(act(x))
    gradients = [torch.autograd.grad(y.float().square().sum(), x)[0] for y in (ours, plain)]
    assert torch.equal(*gradients)


@pytest.mark.parametrize('act', [nn.GELU(), nn.GELU('tanh'), nn.SiLU(), nn.ReLU()])
def test_inference_writes_the_activation_in_place_and_training_does_not(act):
    conv = nn.Conv2d(4, 4, 1)
    x = torch.randn(1, 4, 8, 8)
    expected, activated = conv(act(x)), act(x)
    taken = x.clone()
    with torch.no_grad():
        found = conv_of(act, conv, taken)
    torch.testing.assert_close(found, expected)
    assert torch.equal(taken, activated)
    untouched = x.clone().requires_grad_()
    conv_of(act, conv, untouched).sum().backward()
    assert torch.equal(untouched, x)
