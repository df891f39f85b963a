"""Parts measure real models, and reject to compare different ones."""

import pytest
import torch

from benchmarks import (
    ablation,
    attention,
    backbones,
    mixers,
    operators,
    process,
    throughput,
    units,
)
from benchmarks.__main__ import choose
from benchmarks.part import Settings
from benchmarks.parts import PARTS
from benchmarks.peers import SMALL, Variant, assert_same_maps, build_pair
from mmeffvit.errors import UserError
from mmeffvit.models.mobile_attention.mixers import MIXERS

QUICK = Settings(quick=True)
SMALLEST = Variant('shvit', 's1', 64)


@pytest.mark.parametrize('variant', SMALL, ids=str)
def test_ours_and_timms_are_built_with_equal_maps(timm, variant):
    ours, theirs = build_pair(variant, (64, 128))  # compares them itself
    assert not ours.training
    assert not theirs.training
    assert type(theirs).__module__.startswith('timm')


def test_maps_that_differ_are_not_timed():
    x = torch.rand(1, 2, 3, 3) + 1
    assert_same_maps([x], [x + 1e-5], 'near')
    with pytest.raises(RuntimeError, match='far: map 0 differs'):
        assert_same_maps([x], [x + 1e-3], 'far')
    with pytest.raises(RuntimeError, match='map 0 differs by nan'):
        assert_same_maps([x * float('nan')], [x], 'broken')


def test_a_backbone_is_timed_with_its_peer(timm):
    row = backbones.measure(SMALLEST, (64, 64), 1.0, QUICK)
    assert set(row['seconds']) == set(backbones.CANDIDATES)
    assert all(t > 0 for times in row['seconds'].values() for t in times)
    assert len({len(times) for times in row['seconds'].values()}) == 1


@pytest.mark.variant
@pytest.mark.parametrize('form', ablation.FORMS)
def test_a_special_form_is_timed_against_a_file_without_it(form):
    _, family = ablation.FORMS[form]
    row = ablation.measure(form, Variant(family, 's0'), 64, QUICK)
    assert set(row['seconds']) == {'with', 'without'}
    assert row['form'] in '\n'.join(ablation.render({'row': row}))


def test_units_of_the_figure_have_five_operators_with_their_memory():
    row = units.measure(16, QUICK)
    for five in row['operators'].values():
        assert len(five) == 5
        assert all(ms > 0 and mb >= 0 for ms, mb in five.values())
    assert set(row['operators']) == set(units.PUBLISHED)
    text = '\n'.join(units.render({'256 tokens': row}))
    assert '12.3 ms' in text
    assert 'addmm' in text or 'conv' in text


@pytest.mark.variant
def test_memory_is_that_of_a_process_of_its_own():
    small, large = (process.measure('shvit_s3', batch, QUICK) for batch in (1, 32))
    assert 5e7 < small['peak'] < large['peak']
    text = '\n'.join(process.render({'a': dict(small, batch=1)}))
    assert '| shvit_s3 | 1 |' in text
    assert '1855' in text
    with pytest.raises(RuntimeError, match='exit code 1'):
        process.measure('shvit_s9', 1, QUICK)


@pytest.mark.parametrize('group', mixers.GROUPS)
def test_compared_layers_are_timed_with_their_memory_and_operators(group):
    row = mixers.measure(group, mixers.GROUPS[group], 4, QUICK)
    names = set(mixers.GROUPS[group])
    assert set(row['seconds']) == set(row['bytes']) == set(row['operators']) == names
    assert all(peak > 0 for peak in row['bytes'].values())
    for shares in row['operators'].values():
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
        assert 0 < sum(shares.values()) <= 1.01  # rounded
    text = '\n'.join(mixers.render({'row': row}))
    assert all(f'| {name} |' in text for name in names)


def test_every_token_mixer_is_timed_for_each_head_dimension():
    row = mixers.measure(mixers.SWEEP, mixers.mixers(head_channels=16), 4, QUICK, 16)
    assert set(row['seconds']) == set(MIXERS) - {'hydra'}  # whose heads have one channel
    assert '16 channels in a head' in '\n'.join(mixers.render({'row': row}))


def test_mixers_of_other_papers_are_timed_with_the_heads_that_they_replace():
    built = {name: build() for name, build in mixers.GROUPS[mixers.MIXED].items()}
    assert set(built) == set(MIXERS)
    others = ('token_softmax', 'castling', 'eva', 'flow')
    widths = {name: built[name].head_channels for name in (*others, 'mobile')}
    assert widths == dict.fromkeys(others, mixers.WIDTH // mixers.HEADS) | dict(mobile=4)


def test_layers_that_need_too_much_memory_are_skipped_with_a_reason():
    reasons = {name: layer.skip_reason(256**2, 'cpu') for name, layer in attention.LAYERS.items()}
    assert reasons['talking heads (EFv2)'] == 'its scores take 128 GiB'
    assert reasons['single head (SHViT)'] == 'its scores take 16 GiB'
    assert reasons[attention.DOT_PRODUCT] == 'it takes 2.2 T operations'
    assert all(reasons[n] is None for n, layer in attention.LAYERS.items() if layer.linear)
    assert attention.LAYERS[attention.DOT_PRODUCT].skip_reason(256**2, 'cuda') is None


def test_the_exponent_of_noisy_times_is_the_least_squares_slope():
    # log2 of the times over log2 of the tokens: (0, 0), (1, 2), (2, 1): slope 1 / 2
    times, name = {1: 1.0, 2: 4.0, 4: 2.0}, attention.DOT_PRODUCT
    rows = {str(n): dict(tokens=n, seconds={name: [t]}) for n, t in times.items()}
    assert attention.exponents(rows) == {name: (pytest.approx(0.5), 4)}
    assert attention.exponents({'1': rows['1']}) == {}


def test_operators_of_no_group_are_counted_as_others():
    shares = dict(Conv=0.5, TopK=0.25, RoiAlign=0.125, QuickGelu=0.0625, Add=0.0625)
    row = dict(size=(64, 96), seconds={'run': [0.01]}, shares=shares)
    text = '\n'.join(operators.render({'model': row}))
    expected = '| model | 64 x 96 | 10.0 | 50% | 0% | 6% | 12% | 31% | TopK 25.0%, Add 6.2% |'
    assert expected in text


@pytest.mark.parametrize('mode', ['eager', 'eager AMP'])
def test_mixed_precision_is_on_in_its_mode_only(mode):
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        result = throughput.call(torch.nn.Conv2d(3, 4, 1), x, mode)()
    assert result.dtype == (torch.bfloat16 if mode == 'eager AMP' else torch.float32)


def test_parts_of_the_gpu_are_not_run_on_the_cpu():
    assert choose([], QUICK) == [name for name in PARTS if name != 'throughput']
    assert choose(['report'], QUICK) == []
    with pytest.raises(UserError, match="'throughput' is not a part for cpu; choose backbones, "):
        choose(['throughput'], QUICK)


@pytest.mark.skipif(torch.cuda.is_available(), reason='there is a GPU')
def test_a_missing_gpu_is_reported():
    with pytest.raises(UserError, match='torch finds no GPU'):
        choose([], Settings('cuda'))


def test_the_cases_of_a_part_have_unique_names_and_quick_ones_are_fewer():
    for name, part in PARTS.items():
        everything, quick = part.cases(Settings()), part.cases(QUICK)
        assert len(quick) <= len(everything), name
        assert quick, name
