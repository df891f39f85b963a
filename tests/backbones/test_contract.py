"""The contract of every backbone; a new family enters by its row in CASES."""

import copy
import pickle

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

ARCHS = {
    'mmeffvit.SwiftFormer': ('xs', 's', 'l1', 'l3'),
    'mmeffvit.SHViT': ('s1', 's2', 's3', 's4'),
}
CASES = [(family, arch) for family, archs in ARCHS.items() for arch in archs]
SMALLEST = [(family, archs[0]) for family, archs in ARCHS.items()]
STOCHASTIC = {'mmeffvit.SwiftFormer': dict(drop_path_rate=0.3)}  # SHViT has nothing random


def build(family: str, arch: str, **options) -> nn.Module:
    return MODELS.build(dict(type=family, arch=arch, **options))


def total(maps: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return sum(feature.square().mean() for feature in maps)


@pytest.mark.parametrize(('family', 'arch'), CASES)
@pytest.mark.parametrize('size', [(32, 32), (96, 160), (97, 61)])
def test_maps_match_declared_channels_and_strides(family, arch, size):
    backbone = build(family, arch).eval()
    with torch.no_grad():
        maps = backbone(torch.zeros(1, 3, *size))
    for feature, channels, stride in zip(maps, backbone.channels, backbone.strides, strict=True):
        assert feature.shape == (1, channels, *(-(-side // stride) for side in size))


@pytest.mark.slow
@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_maps_match_at_the_size_of_detection(family, arch):
    test_maps_match_declared_channels_and_strides(family, arch, (800, 1333))


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
@pytest.mark.parametrize('out_indices', [(0, 1, 2), (1, 2), (0, 2), (-1,), (-3, -1)])
def test_out_indices_select_maps_and_build_nothing_else(family, arch, out_indices):
    whole = build(family, arch).eval()
    part = build(family, arch, out_indices=out_indices).eval()
    part.load_state_dict(whole.state_dict(), strict=False)
    x = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        expected = [whole(x)[i] for i in out_indices]
        maps = part(x)
    assert part.channels == tuple(whole.channels[i] for i in out_indices)
    assert part.strides == tuple(whole.strides[i] for i in out_indices)
    for feature, other in zip(maps, expected, strict=True):
        assert torch.equal(feature, other)
    part.train()
    total(part(torch.randn(2, 3, 64, 64))).backward()
    assert all(parameter.grad is not None for parameter in part.parameters())


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
@pytest.mark.parametrize('frozen_stages', [-1, 0, 2, 3])
def test_frozen_stages_get_no_gradient_and_keep_their_statistics(family, arch, frozen_stages):
    backbone = build(family, arch, frozen_stages=frozen_stages)
    frozen = [backbone.stem, *backbone.stages[:frozen_stages]] if frozen_stages >= 0 else []
    free = [m for m in (backbone.stem, *backbone.stages) if m not in frozen]
    before = copy.deepcopy(backbone.state_dict())
    backbone.train()
    loss = total(backbone(torch.randn(2, 3, 64, 64)))
    if loss.requires_grad:  # of an SHViT all of whose stages are frozen, nothing does
        loss.backward()
    assert all(p.grad is None for m in frozen for p in m.parameters())
    assert all(p.grad is not None for m in free for p in m.parameters())
    assert not any(m.training for part in frozen for m in part.modules())
    changed = {k for k, v in backbone.state_dict().items() if not torch.equal(v, before[k])}
    stems = tuple(['stem.'] + [f'stages.{i}.' for i in range(frozen_stages)])
    if frozen_stages >= 0:
        assert not any(key.startswith(stems) for key in changed)
    assert changed or not free


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_norm_eval_keeps_batch_norms_in_eval_mode_and_trains_their_factors(family, arch):
    backbone = build(family, arch, norm_eval=True).train()
    norms = [m for m in backbone.modules() if isinstance(m, _BatchNorm)]
    assert norms
    assert not any(norm.training for norm in norms)
    assert all(norm.weight.requires_grad for norm in norms)
    assert backbone.stages[0].training


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_checkpointing_changes_no_value_gradient_or_statistic(family, arch):
    options = STOCHASTIC.get(family, {})
    plain = build(family, arch, **options).train()
    saving = build(family, arch, **options, with_cp=True).train()
    saving.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 64, 64)
    losses = []
    for backbone in (plain, saving):
        torch.manual_seed(1)  # drop path draws
        loss = total(backbone(x))
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    for (name, a), b in zip(plain.named_parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    for (name, a), b in zip(plain.named_buffers(), saving.buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_checkpointing_saves_memory(family, arch):
    saved = {}
    for with_cp in (False, True):
        backbone = build(family, arch, with_cp=with_cp).train()
        sizes: list[int] = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            backbone(torch.randn(1, 3, 128, 128))
        saved[with_cp] = sum(sizes)
    assert saved[True] < 0.75 * saved[False]  # a stem is not recomputed


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_batch_of_one_trains(family, arch):
    backbone = build(family, arch).train()
    # a map of one pixel has no variance: 65 pixels are the least at stride 64
    total(backbone(torch.randn(1, 3, 65, 65))).backward()
    assert all(p.grad.isfinite().all() for p in backbone.parameters())


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_autocast_stays_close(family, arch):
    backbone = build(family, arch).eval()
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        exact = backbone(x)
        with torch.autocast('cpu', torch.bfloat16):
            rough = backbone(x)
    for feature, other in zip(exact, rough, strict=True):
        # bfloat16 has 8 bits: 0.4 % a step, growing over some fifty layers
        assert (feature - other.float()).abs().max() <= 0.1 * feature.abs().max()


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
def test_copies_give_the_same_maps(family, arch):
    backbone = build(family, arch).eval()
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = backbone(x)
        for other in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
            for feature, same in zip(expected, other(x), strict=True):
                assert torch.equal(feature, same)
        other = copy.deepcopy(backbone).to(memory_format=torch.channels_last)
        for feature, same in zip(expected, other(x), strict=True):
            torch.testing.assert_close(feature, same, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(('family', 'arch'), SMALLEST)
@pytest.mark.parametrize(
    ('options', 'named'),
    [
        (dict(arch='tiny'), "'tiny'; choose one of '.*'"),
        (dict(out_indices=(0, 4)), r'\(0, 4\); choose stages from -\d to \d'),
        (dict(out_indices=(2, 1)), r'\(2, 1\)'),
        (dict(out_indices=()), r'\(\)'),
        (dict(out_indices=(1, 1)), r'\(1, 1\)'),
        (dict(frozen_stages=5), r'5; choose -1 to \d'),
        (dict(arch=dict(channels=(8, 8, 8, 8))), "'depths'"),
    ],
)
def test_bad_arguments_are_named_with_their_choices(family, arch, options, named):
    with pytest.raises(ValueError, match=named):
        build(family, **{'arch': arch, **options})
