"""Parts measure real models, and reject to compare different ones."""

import sys
from functools import partial

import pytest
import torch

from benchmarks import attention, mixers, operators, process, throughput
from benchmarks.__main__ import choose, main
from benchmarks.part import Settings
from benchmarks.parts import PARTS
from benchmarks.peers import SMALL, assert_same_maps, build_pair
from benchmarks.store import read
from mmeffvit.errors import UserError
from mmeffvit.models.mobile_attention.mixers import MIXERS
from tests.variants import sampled

QUICK = Settings(quick=True)
# the other parts export, compile or train full models
CHEAP = ('backbones', 'training', 'gemm', 'papers', 'attention', 'mixers', 'units')


@pytest.mark.parametrize('name', sampled(list(PARTS), CHEAP))
def test_every_part_runs_in_its_smallest_form_and_is_reported(name, timm, tmp_path, monkeypatch):
    (device, *_) = getattr(PARTS[name], 'DEVICES', ('cpu',))
    if device == 'cuda' and not torch.cuda.is_available():
        pytest.skip('there is no GPU')
    command = ['benchmarks', name, '--quick', '--device', device, '--out-dir', str(tmp_path)]
    monkeypatch.setattr(sys, 'argv', command)
    code = main()
    rows = read(tmp_path / f'{name}.json')['rows']
    assert rows
    assert [row['error'] for row in rows.values() if 'error' in row] == []
    assert code == 0
    assert list(rows) == list(PARTS[name].cases(Settings(device, quick=True)))
    failed = [reason for row in rows.values() for reason in row.get('failed', {}).values()]
    assert [reason for reason in failed if 'not installed' not in reason] == []
    assert f'## {PARTS[name].TITLE}' in (tmp_path / 'README.md').read_text()


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


@pytest.mark.variant
def test_memory_is_that_of_a_process_of_its_own():
    small, large = (process.measure('shvit_s3', batch, QUICK) for batch in (1, 32))
    assert 5e7 < small['peak'] < large['peak']
    with pytest.raises(RuntimeError, match='exit code 1'):
        process.measure('shvit_s9', 1, QUICK)


def test_operators_of_a_layer_have_shares_of_its_time_the_slowest_first():
    run = partial(torch.nn.Conv2d(8, 8, 1), torch.rand(1, 8, 8, 8))
    shares = list(mixers.operator_shares(run, 'cpu').values())
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1.01  # rounded


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
