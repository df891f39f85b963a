"""A layer with fewer heads equals the whole layer without the outputs of the others."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.analysis.pruning.scores import best_units, random_scores, uvc_scores
from mmeffvit.deploy import fuse
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import export_backbone
from mmeffvit.models import DeiTMobiAtt, EfficientFormerV2MobiAtt, PVTv2MobiAtt
from mmeffvit.models.deit import backbone as deit
from mmeffvit.models.efficientformerv2 import backbone as efficientformerv2
from mmeffvit.models.efficientformerv2.attention import DownsamplingAttention, LocalGlobalAttention
from mmeffvit.models.layers.head_projections import Units, hidden_layers, prunable_layers
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.pvtv2 import backbone as pvtv2
from tests.models.parity import randomized

HEADS, KEPT = 6, [1, 2, 5]
REMOVED = [0, 3, 4]
X = (torch.arange(2 * 24 * 6 * 8) * 0.9).sin().view(2, 24, 6, 8).double()
SETTINGS = [
    dict(competition=True, form='default'),
    dict(competition=True, form='code'),
    dict(competition=False, form='default'),
]


LAYERS = {  # 4 channels in queries and keys of a head, and 8 or 4 in its values
    'blocks': lambda make: LocalGlobalAttention(24, 24, 48, make(24, 48, 1), stride=2),
    'downsampling': lambda make: DownsamplingAttention(24, 32, 24, 48, make(24, 48, 1), 2),
    'pvtv2': lambda make: pvtv2.MobileMixer(24, 1, make),
    'deit': lambda make: deit.TokenMixer(24, make(24, 24, 1), num_tokens=2),
}
TINY = dict(channels=(8, 16, 24, 32), depths=(1, 1, 2, 1), attended=(1, 1), narrow=((0, 0),) * 2)
MIXER = dict(type='mobile', head_channels=32)
MOBILE = dict(arch=TINY, attention=MIXER, downsampling=MIXER)
PVT = dict(arch=dict(channels=(8, 16, 20, 32), depths=(1,) * 4, expansions=(1,) * 4))


def make_layer(name: str, settings: dict) -> nn.Module:
    return randomized(LAYERS[name](partial(MobileAttention, **settings))).double().eval()


def of_removed(x: Tensor) -> Tensor:
    """Which channels of a map or of a sequence belong to removed heads."""
    channels = x.shape[1] if x.ndim == 4 else x.shape[2]
    heads = torch.arange(HEADS).repeat_interleave(channels // HEADS)
    removed = torch.isin(heads, torch.tensor(REMOVED))
    return removed[:, None, None] if x.ndim == 4 else removed


def leave_out(projections: Units) -> None:
    """Zero the outputs of the removed heads, and let them have no part in sums over the heads."""

    def absent(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        query, key, value = inputs  # the sigmoid of a large negative number is 0
        query, key = (m.masked_fill(of_removed(m), -1e4) for m in (query, key))
        return query, key, value

    def zeroed(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (inputs[0].masked_fill(of_removed(inputs[0]), 0),)

    if projections.mixer.competition or projections.mixer.form.normalizer == 'head':
        projections.mixer.register_forward_pre_hook(absent)
    projections.out.register_forward_pre_hook(zeroed)


@torch.no_grad()
@pytest.mark.parametrize('name', LAYERS)
@pytest.mark.parametrize('settings', SETTINGS, ids=str)
def test_a_layer_without_heads_equals_the_layer_with_their_outputs_at_zero(name, settings):
    whole = make_layer(name, settings)
    smaller = copy.deepcopy(whole)
    (layer,) = prunable_layers(smaller).values()
    assert layer.count == HEADS
    layer.keep(KEPT)
    assert layer.count == len(KEPT)
    inputs = (X.flatten(2).transpose(1, 2), (6, 8)) if name == 'deit' else (X,)
    before = whole(*inputs)
    leave_out(*prunable_layers(whole).values())
    expected = whole(*inputs)
    assert not torch.allclose(before, expected, rtol=0.1)  # the heads do matter
    torch.testing.assert_close(smaller(*inputs), expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize('name', ['deit', 'pvtv2', 'efficientformerv2'])
def test_a_feed_forward_layer_without_hidden_units_equals_the_layer_with_them_at_zero(name):
    layers = dict(
        deit=lambda: deit.FeedForward(6),
        pvtv2=lambda: pvtv2.FeedForward(6, 4),
        efficientformerv2=lambda: efficientformerv2.FeedForward(6, 4),
    )
    whole = randomized(layers[name]()).double().eval()
    smaller = copy.deepcopy(whole)
    units = smaller.prunable_units()
    assert units.count == 24
    kept = [0, 3, 4, 11, 23]
    units.keep(kept)
    assert units.count == len(kept)
    x = X[:, :6].flatten(2).transpose(1, 2) if name == 'deit' else X[:, :6]
    removed = torch.tensor([i for i in range(24) if i not in kept])
    axis = 2 if name == 'deit' else 1

    def zeroed(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (inputs[0].index_fill(axis, removed, 0),)

    whole.prunable_units().out.register_forward_pre_hook(zeroed)
    torch.testing.assert_close(smaller(x), whole(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ('kept', 'giga_macs'),
    [({}, 4.227), (dict(kept_heads=[48] * 12), 3.53), (
        dict(kept_heads=[48] * 12, kept_neurons=[768] * 12), 2.142
    )],
)  # fmt: skip
def test_half_of_the_heads_and_of_the_neurons_leave_the_share_that_the_paper_prints(
    kept, giga_macs
):
    """Table 4 prints 50.6 and 50.8 % (2.13 of 4.20 G); 2.142 of 4.227 G are 50.7 %."""
    with torch.device('meta'):
        backbone = DeiTMobiAtt('s', class_tokens=0, **kept).eval()
        with FlopCounterMode(display=False) as counter:
            backbone(torch.empty(1, 3, 224, 224))
    assert counter.get_total_flops() / 2e9 == pytest.approx(giga_macs, rel=5e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    ('build', 'arguments', 'present'),
    [
        pytest.param(EfficientFormerV2MobiAtt, MOBILE, (8, 4, 8), marks=pytest.mark.variant),
        (PVTv2MobiAtt, PVT, (2, 4, 5, 8)),
    ],
)
def test_a_pruned_backbone_is_built_trains_and_is_exported(build, arguments, present, tmp_path):
    whole = randomized(build(**arguments))
    layers = prunable_layers(whole)
    assert tuple(layer.count for layer in layers.values()) == present
    parameters = sum(p.numel() for p in whole.parameters())
    hidden = hidden_layers(whole)
    neurons = [layer.count for layer in hidden.values()]
    for layer in (*layers.values(), *hidden.values()):
        layer.keep(range(1, layer.count, 2))
    counts = [heads // 2 for heads in present]
    again = build(**arguments, kept_heads=counts, kept_neurons=[n // 2 for n in neurons])
    again.load_state_dict(whole.state_dict())
    again.eval()
    image = torch.randn(1, 3, 64, 96)
    maps = whole.eval()(image)
    torch.testing.assert_close(again(image), maps, rtol=0, atol=0)
    assert sum(p.numel() for p in again.parameters()) < parameters
    torch.testing.assert_close(fuse(again)(image), maps, rtol=1e-3, atol=1e-4)

    path = export_backbone(again, tmp_path / 'pruned.onnx', (64, 96), batch=1)
    pixels = torch.randint(256, image.shape).float()
    found = open_onnx(path).run(pixels.numpy()).values()
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (again.input_mean, again.input_std))
    for array, expected in zip(found, again((pixels - mean) / std), strict=True):
        torch.testing.assert_close(torch.from_numpy(array), expected, rtol=1e-3, atol=1e-4)

    with torch.enable_grad():
        sum(x.square().mean() for x in again.train()(image)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in again.parameters())


@pytest.mark.parametrize('counts', [(1,), (8, 5, 8), (8, 0, 8), (8, 4, 8, 8)])
def test_head_counts_that_do_not_fit_are_named(counts):
    with pytest.raises(ValueError, match=r'kept_heads is .* number of heads: \(8, 4, 8\)'):
        EfficientFormerV2MobiAtt(**MOBILE, kept_heads=counts)
    with pytest.raises(ValueError, match='kept_heads is '):  # without such heads
        EfficientFormerV2MobiAtt(TINY, attention='local_global', kept_heads=counts)


@torch.no_grad()
def test_scores_of_the_competition_are_token_means_of_the_competed_outgoing_flow():
    layer = MobileAttention(24, 24, 6)
    query, key, value = X, X.roll(3, 1) * 2, X.roll(5, 1)
    scores = layer.head_scores((query, key, value))
    torch.testing.assert_close(scores.mean(dim=1), torch.ones(2).double(), rtol=1e-5, atol=0)
    q, k = (m.sigmoid().flatten(2).unflatten(1, (HEADS, 4)) for m in (query, key))
    incoming = torch.einsum('bhdn,bdn->bhn', q, k.sum(1))
    outgoing = torch.einsum('bhdn,bdn->bhn', k, q.sum(1))
    received = torch.einsum('bhdn,bdn->bhn', q, (k / outgoing[:, :, None]).sum(1))
    given = torch.einsum('bhdn,bdn->bhn', k, (q / incoming[:, :, None]).sum(1))
    # the layer adds 1e-6 to every factor
    torch.testing.assert_close(scores, given.mean(2), rtol=1e-4, atol=0)
    both = (received + given).mean(2)
    assert not scores.argsort().equal(both.argsort())  # what heads receive has no part in it
    # a head with larger queries and keys wins
    boosted = query.clone()
    boosted[:, 8:12] += 3
    assert (layer.head_scores((boosted, key, value)) > scores)[:, 2].all()


@torch.no_grad()
def test_other_scores_and_the_choice():
    layers = {'a': make_layer('blocks', SETTINGS[0]).prunable_units()}
    weight = layers['a'].out[0].weight
    weight[:] = 1
    for head in range(HEADS):
        weight[:, 8 * head : 8 * head + 8] *= (4, 6, 5, 1, 2, 3)[head]
    found = uvc_scores(layers)['a']
    expected = 24 * 8 * torch.tensor([16, 36, 25, 1, 4, 9]).double()
    torch.testing.assert_close(found, expected)
    assert best_units(found, 0.5) == [0, 1, 2]
    assert best_units(found, 0.01) == [1]
    assert best_units(torch.ones(4), 0.5) == [0, 1]
    first, second, other = (random_scores(layers, seed)['a'] for seed in (0, 0, 1))
    assert first.equal(second)
    assert not first.equal(other)


def test_a_mixer_with_weights_of_its_own_keeps_its_heads():
    settings = dict(arch=TINY, attention=dict(type='gated', head_channels=32))
    assert not prunable_layers(EfficientFormerV2MobiAtt(**settings))
