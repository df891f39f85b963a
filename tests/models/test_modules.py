"""All modules are called through ``__call__``: hooks, adapters and wrappers work."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from tests.models.test_contract import TINIEST, build, total
from tests.variants import sampled

CONTAINERS = (nn.ModuleList, nn.ModuleDict)  # have no forward


def calls_of(backbone: nn.Module) -> dict[str, int]:
    """How often the code calls each module: drop path once per residual branch."""
    calls = {n: 1 for n, m in backbone.named_modules() if not isinstance(m, CONTAINERS)}
    for name in calls:
        parent, _, child = name.rpartition('.')
        if child == 'drop_path' and backbone.get_submodule(parent).attention is not None:
            calls[name] = 2
    return calls


@pytest.mark.parametrize(('training', 'with_grad'), [(False, False), (True, True)])
@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_every_hook_fires_and_outputs_are_not_modified_later(family, arch, training, with_grad):
    backbone = build(family, arch).train(training)
    seen: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def record(module, inputs, output, name):
        (output, *_) = output if isinstance(output, tuple) else (output,)
        seen.setdefault(name, []).append((output, output.detach().clone()))

    for name, module in backbone.named_modules():
        if not isinstance(module, CONTAINERS):
            module.register_forward_hook(partial(record, name=name))
    with torch.set_grad_enabled(with_grad):
        maps = backbone(torch.randn(2, 3, 96, 96))
    if with_grad:
        total(maps).backward()
    assert {name: len(outputs) for name, outputs in seen.items()} == calls_of(backbone)
    for name, outputs in seen.items():
        for output, clone in outputs:
            assert torch.equal(output, clone), name


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_modules_of_the_feature_info_give_the_maps(family, arch):
    def record(module, inputs, output, name):
        seen[name] = output

    for out_indices in ((0, 2), (-1,)):
        backbone, seen = build(family, arch, out_indices=out_indices).eval(), {}
        for info in backbone.feature_info:
            module = backbone.get_submodule(info['module'])
            module.register_forward_hook(partial(record, name=info['module']))
        maps = backbone(torch.randn(1, 3, 128, 128))
        assert [info['num_chs'] for info in backbone.feature_info] == list(backbone.channels)
        assert [info['reduction'] for info in backbone.feature_info] == list(backbone.strides)
        for info, feature in zip(backbone.feature_info, maps, strict=True):
            assert seen[info['module']] is feature
            assert feature.shape[1] == info['num_chs']


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_functional_gradients_of_single_images_equal_those_of_autograd(family, arch):
    backbone = build(family, arch).eval().double()
    parameters = dict(backbone.named_parameters())
    images = torch.randn(2, 1, 3, 64, 64, dtype=torch.double)

    def loss_of(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return total(functional_call(backbone, parameters, (x,)))

    found = vmap(grad(loss_of), in_dims=(None, 0))(parameters, images)
    for i, image in enumerate(images):
        expected = torch.autograd.grad(total(backbone(image)), list(parameters.values()))
        for (name, ours), other in zip(found.items(), expected, strict=True):
            torch.testing.assert_close(ours[i], other, msg=name)


@pytest.mark.parametrize('training', sampled([False, True], [True]))
@pytest.mark.parametrize(('family', 'arch'), sampled(TINIEST, TINIEST[::8]))
@pytest.mark.filterwarnings('ignore::torch.jit.TracerWarning', 'ignore::DeprecationWarning')
def test_a_traced_backbone_gives_the_same_maps(family, arch, training):
    backbone = build(family, arch, norm_eval=True).train(training)
    for with_grad in (False, True):
        with torch.set_grad_enabled(with_grad):
            traced = torch.jit.trace(backbone, torch.randn(1, 3, 64, 96))
            x = torch.randn(1, 3, 64, 96)
            for feature, other in zip(traced(x), backbone(x), strict=True):
                torch.testing.assert_close(feature, other)
