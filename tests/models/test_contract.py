"""The contract of every backbone; registered families are tested automatically."""

import copy
import pickle
from dataclasses import asdict
from typing import Any

import pytest
import torch
from mmengine.model import convert_sync_batchnorm
from mmengine.registry import MODELS
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mmeffvit.models import families
from tests.models.declared import DECLARED
from tests.variants import sampled

ARCHS = {name: tuple(cls.variants) for name, cls in families().items()} | {
    'MobileViTv2 restored': ('050',)
}
TINY = {name: archs[0] for name, archs in ARCHS.items()}  # of one that is not declared
TINY |= {name: family.tiny for name, family in DECLARED.items()} | {'MobileViTv2 restored': 0.125}
EFV2_TINY = TINY['EfficientFormerV2']
CASES = [(family, arch) for family, archs in ARCHS.items() for arch in archs]
SMALLEST = [(family, archs[0]) for family, archs in ARCHS.items()]
TINIEST = list(TINY.items())
# variants of a family by arguments
FORMS = {
    'MobileViTv2 restored': dict(type='MobileViTv2', odd_size='restore'),
    'EfficientFormerV2MobiAtt': dict(downsampling='mobile'),
}
STOCHASTIC = {name: dict(drop_path_rate=0.3) for name in DECLARED if DECLARED[name].drops_paths}
WITHOUT_BATCH_NORMS = {name for name, family in DECLARED.items() if not family.has_batch_norms}
EXPORT_MULTIPLE = {name: family.export_multiple for name, family in DECLARED.items()}
EXPORT_MULTIPLE['MobileViTv2 restored'] = EXPORT_MULTIPLE['MobileViTv2']


def build(family: str, arch: str | float | dict, **options) -> nn.Module:
    config = dict(type=family, arch=arch) | FORMS.get(family, {}) | options
    return MODELS.build(config | dict(type=f'mmeffvit.{config["type"]}'))


def named(*families: str) -> list[tuple[str, Any]]:
    """The tiniest of these: the others with ``--all-variants``, since they take seconds."""
    return [case for case in TINIEST if case[0] in families]


def declared_sides(family: str, side: int, strides: tuple[int, ...]) -> list[int]:
    """The side of every map of an image's side; MobileViTv2 rounds up to even numbers."""
    if family != 'MobileViTv2':
        return [-(-side // stride) for stride in strides]
    sides, stride = [], 1
    for target in strides:
        while stride < target:
            stride *= 2
            side = -(-side // 2)
            side += side % 2 if stride >= 8 else 0
        sides.append(side)
    return sides


def total(maps: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return sum(feature.square().mean() for feature in maps)


@pytest.mark.parametrize(('family', 'arch'), sampled(CASES, SMALLEST))
def test_maps_match_declared_channels_and_strides(family, arch):
    with torch.device('meta'):  # shapes only: the cost does not depend on the size
        backbone = build(family, arch).eval()
        for size in [(224, 224), (97, 61), (800, 1333)]:
            assert_declared(family, backbone, size)


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
@pytest.mark.parametrize(
    'size', [(32, 32), (97, 61), pytest.param((800, 1333), marks=pytest.mark.variant)]
)
def test_maps_of_real_images_match_too(family, arch, size):
    assert_declared(family, build(family, arch).eval(), size)


def assert_declared(family: str, backbone: nn.Module, size: tuple[int, int]) -> None:
    with torch.no_grad():
        maps = backbone(torch.zeros(1, 3, *size))
    sides = [declared_sides(family, side, backbone.strides) for side in size]
    expected = list(zip(backbone.channels, *sides, strict=True))
    assert [tuple(feature.shape[1:]) for feature in maps] == expected
    assert not any(feature.isnan().any() for feature in maps if not feature.is_meta)


@pytest.mark.parametrize(
    ('family', 'arch', 'out_indices'),
    [(*case, chosen) for case in TINIEST for chosen in ((-3, -1), (0, 2), (1,))],
)
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


@pytest.mark.parametrize(
    ('family', 'arch', 'frozen_stages'),
    [(*case, frozen_stages) for case in TINIEST for frozen_stages in (-1, 0, 2)],
)
def test_frozen_stages_get_no_gradient_and_keep_their_statistics(family, arch, frozen_stages):
    backbone = build(family, arch, frozen_stages=frozen_stages)
    frozen = [backbone.stem, *backbone.stages[:frozen_stages]] if frozen_stages >= 0 else []
    free = [m for m in (backbone.stem, *backbone.stages) if m not in frozen]
    before = copy.deepcopy(backbone.state_dict())
    backbone.train()
    loss = total(backbone(torch.randn(2, 3, 64, 64)))
    if loss.requires_grad:  # False for an SHViT with all stages frozen
        loss.backward()
    assert all(p.grad is None for m in frozen for p in m.parameters())
    assert all(p.grad is not None for m in free for p in m.parameters())
    assert not any(m.training for part in frozen for m in part.modules())
    changed = {k for k, v in backbone.state_dict().items() if not torch.equal(v, before[k])}
    stems = tuple(['stem.'] + [f'stages.{i}.' for i in range(frozen_stages)])
    if frozen_stages >= 0:
        assert not any(key.startswith(stems) for key in changed)
    assert changed or not any(isinstance(n, _BatchNorm) for m in free for n in m.modules())


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_norm_eval_keeps_batch_norms_in_eval_mode_and_trains_their_factors(family, arch):
    backbone = build(family, arch, norm_eval=True).train()
    norms = [m for m in backbone.modules() if isinstance(m, _BatchNorm)]
    assert bool(norms) == (family not in WITHOUT_BATCH_NORMS)
    assert not any(norm.training for norm in norms)
    assert all(norm.weight.requires_grad for norm in norms)
    assert backbone.stages[0].training


# without a process group, synchronized norms run on a CPU
@pytest.mark.parametrize(
    'convert',
    [nn.Module.train, nn.SyncBatchNorm.convert_sync_batchnorm, convert_sync_batchnorm],
    ids=['own norms', 'synchronized by torch', 'synchronized by mmengine'],
)
@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_checkpointing_changes_no_value_gradient_or_statistic(family, arch, convert):
    options = STOCHASTIC.get(family, {})
    plain = build(family, arch, **options).train()
    saving = build(family, arch, **options, with_cp=True)
    saving.load_state_dict(plain.state_dict())
    saving = convert(saving).train()
    x = torch.randn(2, 3, 64, 64)
    losses = []
    for backbone in (plain, saving):
        torch.manual_seed(1)  # for drop path
        loss = total(backbone(x))
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    for (name, a), b in zip(plain.named_parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    for (name, a), b in zip(plain.named_buffers(), saving.buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
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
    assert saved[True] < 0.75 * saved[False]  # stems are not recomputed


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_batch_of_one_trains(family, arch):
    backbone = build(family, arch).train()
    # a map of one pixel has no variance: 65 pixels are the minimum at stride 64
    total(backbone(torch.randn(1, 3, 65, 65))).backward()
    assert all(p.grad.isfinite().all() for p in backbone.parameters())


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
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


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
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


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_bad_arguments_are_named_with_their_choices(family, arch):
    cls = families()[FORMS.get(family, {}).get('type', family)]
    sizes = asdict(next(iter(cls.variants.values())))
    channels = sizes['channels']
    below = (-8, *channels[1:]) if isinstance(channels, tuple) else -8
    with pytest.raises(ValueError, match="attention is 'flaw'; choose one of") as error:
        build(family, arch, attention='flaw')
    assert all(repr(name) in str(error.value) for name in cls.attentions)
    for options, named in (
        (dict(attention=dict(type=next(iter(cls.attentions)), side=3)), 'side is 3: attention='),
        (dict(arch={**sizes, 'channels': below}), '-8'),
        *[(dict(drop_path_rate=1.0), r'1\.0')] * (family in STOCHASTIC),
        (dict(arch='tiny'), "'tiny'; choose one of '.*'"),
        (dict(out_indices=(0, 5)), r'\(0, 5\); choose stages from -\d to \d'),
        (dict(out_indices=(2, 1)), r'\(2, 1\)'),
        (dict(out_indices=()), r'\(\)'),
        (dict(out_indices=(1, 1)), r'\(1, 1\)'),
        (dict(frozen_stages=6), r'6; choose -1 to \d'),
        (dict(arch=dict(channels=(8, 8, 8, 8))), "'channels'"),
        (dict(out_indices=(-6,)), r'\(-6,\)'),
    ):
        with pytest.raises(ValueError, match=named):
            build(family, **{'arch': arch, **options})


@pytest.mark.parametrize(('family', 'arch'), TINIEST)
def test_inputs_that_are_not_images_or_too_small_are_reported(family, arch):
    backbone = build(family, arch)
    for shape in ((1, 3, 31, 64), (1, 3, 64, 8), (1, 1, 64, 64), (3, 64, 64)):
        with pytest.raises(ValueError, match=r'give \(batch, 3, height, width\)') as error:
            backbone(torch.zeros(shape))
        assert str(shape) in str(error.value)


@pytest.mark.parametrize(
    ('family', 'arch'), sampled(TINIEST, named('EfficientFormerV2', 'MobileViTv2'))
)
def test_one_exported_graph_serves_every_size(family, arch):
    backbone = build(family, arch).eval()
    multiple = EXPORT_MULTIPLE.get(family, 1)
    least = -(-65 // multiple)
    sides = {
        2: torch.export.Dim('h', min=least, max=999),
        3: torch.export.Dim('w', min=least, max=999),
    }
    shapes = {i: multiple * side if multiple > 1 else side for i, side in sides.items()}
    example = torch.zeros(1, 3, 192, 128) if multiple > 1 else torch.zeros(1, 3, 97, 161)
    graph = torch.export.export(backbone, (example,), dynamic_shapes=(shapes,)).module()
    for size in [(128, 128), (192, 320), (65, 130), (97, 71)]:
        if size[0] % multiple or size[1] % multiple:
            continue
        x = torch.randn(1, 3, *size)
        with torch.no_grad():
            for feature, other in zip(graph(x), backbone(x), strict=True):
                torch.testing.assert_close(feature, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(('family', 'arch'), sampled(TINIEST, named('PVTv2', 'SHViT')))
def test_compiling_breaks_no_graph_and_changes_no_map_or_gradient(family, arch):
    backbone = build(family, arch, with_cp=family == 'SHViT').train()
    # traced as by the default backend, which takes half a minute longer per family
    compiled = torch.compile(copy.deepcopy(backbone), backend='aot_eager', fullgraph=True)
    x = torch.randn(2, 3, 80, 96)
    for feature, other in zip(compiled(x), backbone(x), strict=True):
        torch.testing.assert_close(feature, other, rtol=1e-4, atol=1e-4)
    total(compiled(x)).backward()
    total(backbone(x)).backward()
    for (name, p), q in zip(compiled.named_parameters(), backbone.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4, msg=name)
    torch.compiler.reset()
