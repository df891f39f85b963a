"""All modules are called through ``__call__``: hooks, adapters and wrappers work."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from benchmarks.memory import allocations
from tests.conftest import run_python
from tests.models import sharded
from tests.models.parity import randomized
from tests.models.test_contract import TINIEST, TINY, build, total
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


def loss_of(backbone: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    return total(functional_call(backbone, parameters, (x,)))


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_functional_gradients_equal_those_of_autograd(family, arch):
    backbone = build(family, arch, norm_eval=True).train().double()
    x = torch.randn(2, 3, 64, 64, dtype=torch.double)
    parameters = dict(backbone.named_parameters())
    found = grad(partial(loss_of, backbone))(parameters, x)
    expected = torch.autograd.grad(total(backbone(x)), list(parameters.values()))
    for (name, ours), other in zip(found.items(), expected, strict=True):
        torch.testing.assert_close(ours, other, msg=name)


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_gradients_of_single_images_equal_those_of_a_loop(family, arch):
    backbone = build(family, arch).eval().double()
    parameters = dict(backbone.named_parameters())
    images = torch.randn(2, 1, 3, 64, 64, dtype=torch.double)
    of_one = grad(partial(loss_of, backbone))
    found = vmap(of_one, in_dims=(None, 0))(parameters, images)
    for i, image in enumerate(images):
        for name, expected in of_one(parameters, image).items():
            torch.testing.assert_close(found[name][i], expected, msg=name)


class LowRank(nn.Module):
    """A convolution with a low-rank adapter that is initialized to zero."""

    def __init__(self, conv: nn.Conv2d, rank: int = 2) -> None:
        super().__init__()
        self.conv = conv.requires_grad_(False)
        self.down = nn.Conv2d(
            conv.in_channels, rank, conv.kernel_size, conv.stride, conv.padding, conv.dilation
        )
        self.up = nn.Conv2d(rank, conv.out_channels, 1, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) + self.up(self.down(x))


def adapt(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            setattr(module, name, LowRank(child))
        else:
            adapt(child)


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_a_low_rank_term_beside_every_convolution_trains(family, arch):
    torch.manual_seed(0)
    backbone = randomized(build(family, arch, norm_eval=True)).requires_grad_(False)
    for module in backbone.modules():  # a factor of zero blocks the gradient
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
    x = torch.randn(1, 3, 96, 96)
    with torch.no_grad():
        before = backbone.eval()(x)
        targets = [feature + 0.1 * torch.randn_like(feature) for feature in before]
    adapt(backbone)
    with torch.no_grad():  # an adapter of zeros changes nothing
        for feature, same in zip(backbone(x), before, strict=True):
            torch.testing.assert_close(feature, same)
    backbone.train()
    terms = {n: m for n, m in backbone.named_modules() if isinstance(m, LowRank)}
    optimizer = torch.optim.Adam([p for p in backbone.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        maps = backbone(x)
        loss = sum((m - t).square().mean() for m, t in zip(maps, targets, strict=True))
        loss.backward()
        losses.append(loss.item())
        if len(losses) == 1:
            for name, term in terms.items():
                assert term.up.weight.grad.abs().max() > 0, name
        optimizer.step()
    assert losses[-1] < losses[0]


def bytes_after(run: Callable[[], Tensor]) -> int:
    """Bytes still allocated after ``run``, including what backward needs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run()
    assert kept.requires_grad
    return sum(allocations(profiler))


@pytest.mark.parametrize('family', TINY)
def test_checkpointing_by_the_user_keeps_only_the_output(family):
    wide = {'MobileViTv2': '050', 'MobileViTv2 restored': '050'}
    backbone = build(family, wide.get(family, TINY[family])).train()
    name, block = next((n, m) for n, m in backbone.named_modules() if n.endswith('feed_forward'))
    first = next(m for m in block.modules() if isinstance(m, nn.Conv2d | nn.Linear))
    shape = (64 * 64, first.weight.shape[1])  # of tokens; of a map in most families
    if isinstance(first, nn.Conv2d):
        shape = (first.in_channels, 64, 64)
    x = torch.randn(2, *shape, requires_grad=True)
    output = block(x).nbytes
    kept = bytes_after(lambda: checkpoint(block, x, use_reentrant=False))
    # plus the state of the random number generator, 5 KB
    assert kept < output + 16_384, name
    assert bytes_after(lambda: block(x)) > 2 * output


@pytest.mark.parametrize('training', sampled([False, True], [True]))
@pytest.mark.parametrize(('family', 'arch'), sampled(TINIEST, TINIEST[::4]))
@pytest.mark.filterwarnings('ignore::torch.jit.TracerWarning', 'ignore::DeprecationWarning')
def test_a_traced_backbone_gives_the_same_maps(family, arch, training):
    backbone = build(family, arch, norm_eval=True).train(training)
    for with_grad in (False, True):
        with torch.set_grad_enabled(with_grad):
            traced = torch.jit.trace(backbone, torch.randn(1, 3, 64, 96))
            x = torch.randn(1, 3, 64, 96)
            for feature, other in zip(traced(x), backbone(x), strict=True):
                torch.testing.assert_close(feature, other)


@pytest.mark.variant
def test_two_sharded_processes_train_like_one(tmp_path):
    run = run_python(
        '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2',
        '-m', 'tests.models.sharded', tmp_path, env=dict(OMP_NUM_THREADS='1'),
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    ranks = [torch.load(tmp_path / f'{rank}.pth') for rank in range(2)]
    for family, arch in TINIEST:
        backbone = sharded.make(family, arch)
        for number in range(sharded.STEPS):
            losses = sharded.step(backbone, sharded.images().split(2))
            shared = [rank[family]['losses'][number] for rank in ranks]
            assert [loss for (loss,) in shared] == pytest.approx(losses, rel=1e-6)
        for name, parameter in backbone.named_parameters():
            for rank in ranks:
                torch.testing.assert_close(rank[family]['parameters'][name], parameter, msg=name)
