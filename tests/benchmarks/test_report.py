"""The report shows the measurements and compares them with the targets."""

import json
from pathlib import Path

import pytest

from benchmarks.deployed import PLOT, TOP1, points_of
from benchmarks.parts import PARTS
from benchmarks.report import write_report
from benchmarks.store import Rows
from mmeffvit.errors import UserError
from mmeffvit.models.efficientformerv2 import backbone as efficientformerv2
from mmeffvit.models.mobilevitv2 import backbone as mobilevitv2
from mmeffvit.models.shvit import backbone as shvit
from mmeffvit.models.swiftformer import backbone as swiftformer

MACHINE = {'cpu': 'a calculator', 'torch': '2'}
WHEN = {'commit': 'abc1234', 'date': '2026-01-02T03:04:05+00:00', 'load': 0.5}


def seconds(**times: float) -> dict:
    """Three rounds of each candidate; keywords have _ for a space."""
    return {name.replace('_', ' '): [t, t, t] for name, t in times.items()}


def backbone(model: str, fused: float) -> dict:
    times = seconds(timm=0.02, ours=0.016, fused=fused)
    times |= {'timm channels_last': [0.016] * 3}
    return dict(model=model, size=[224, 224], seconds=times)


def deployed(model: str, side: int, ours: float) -> dict:
    times = seconds(timm_eager=0.05, timm_ONNX=0.02, ours_ONNX=ours, GEMM=0.02)
    return dict(model=model, size=[side, side], macs=2**29, seconds=times)


RECORDED = {
    'backbones': {
        'shvit_s1 224x224': backbone('shvit_s1', 0.01),
        'shvit_s4 256x256': backbone('shvit_s4', 0.025),
        'swiftformer_xs 224x224': {'error': 'RuntimeError: maps differ'},
    },
    'training': {
        'shvit_s1 8 x 224': dict(
            model='shvit_s1',
            batch=8,
            side=224,
            seconds=seconds(timm=1.2, ours=1.0),
            peak_bytes={'timm': 100 * 2**20, 'ours': 80 * 2**20, 'ours with_cp': 40 * 2**20},
        )
    },
    'deployed': {
        'shvit_s1 512x512': deployed('shvit_s1', 512, 0.016),
        'shvit_s1 224x224': deployed('shvit_s1', 224, 0.01),
        'shvit_s4 256x256': deployed('shvit_s4', 256, 0.016),
    },
    'attention': {
        f'{n} tokens': dict(
            tokens=n,
            skipped={} if n < 4096 else {'talking heads (EFv2)': 'its scores take 8 GiB'},
            seconds={
                'additive (SwiftFormer)': [1e-6 * n] * 3,
                'separable (MobileViTv2)': [1e-8 * n**1.5] * 3,
                'scaled dot product': [1e-9 * n**2] * 3,
            },
        )
        for n in (1024, 4096)
    },
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('results')
    for name, recorded in RECORDED.items():
        rows = Rows(folder / f'{name}.json', MACHINE)
        for key, row in recorded.items():
            rows.add(key, {**row, **WHEN})
    write_report(folder)
    return folder


@pytest.fixture(scope='module')
def report(folder: Path) -> str:
    return (folder / 'README.md').read_text()


def test_the_tables_have_ratios_and_times(report):
    assert '| cpu | a calculator |' in report
    # 20 ms of timm's over 16 and over 10
    row = next(line for line in report.splitlines() if line.startswith('| shvit_s1 | 224 x 224 |'))
    assert '20.0 (20.0)' in row
    assert '1.25 (1.25 to 1.25) | 2.00 (2.00 to 2.00)' in row
    assert '2.00 (2.00 to 2.00) | 1.60 |' in report  # fused, also against the faster layout
    assert '| shvit_s1 | 8 of 224 x 224 | 1200 (1200) | 1000 (1000) |' in report
    assert '| 100.0 | 80.0 | 40.0 | 0.800 | 0.400 |' in report
    assert 'commit abc1234' in report


def test_targets_are_checked_for_the_mean_and_the_minimum(report):
    # ratios 2 and 0.8
    assert 'reached: fused : timm, eager, geometric mean at least 1.1; measured 1.26' in report
    assert '**missed**: fused : timm, eager, none below 1.0; measured 0.80 (shvit_s4' in report
    assert (
        'reached: training step, ours : timm, geometric mean at least 1.0; measured 1.20' in report
    )
    assert 'reached: peak memory of a step' in report
    assert 'reached: deployed, ours ONNX : timm eager' in report
    assert 'reached: exponent of additive (SwiftFormer) at most 1.05; measured 1.000' in report
    assert '**missed**: exponent of separable (MobileViTv2) at most 1.05; measured 1.500' in report
    assert 'exponent of scaled dot product' not in report  # it is not meant to be linear


def test_the_share_of_the_gemm_rate_is_of_the_same_rounds(report):
    # half the MACs of the product of 1024, in half its time
    (line,) = [r for r in report.splitlines() if r.startswith('| shvit_s1 | 224 x 224 | 0.537 |')]
    assert line.endswith('| 107.4 | 100% | 50% |')


def test_failed_and_skipped_rows_are_reported(report):
    assert '- swiftformer_xs 224x224 failed: RuntimeError: maps differ' in report
    assert 'talking heads (EFv2) at 4096 tokens was not run: its scores take 8 GiB' in report


def test_the_plot_shows_every_model_at_its_training_size(report, folder):
    assert points_of(RECORDED['deployed'], 'ours ONNX') == {'shvit_s1': 10.0, 'shvit_s4': 16.0}
    assert (folder / PLOT).read_bytes().startswith(b'\x89PNG')
    assert f']({PLOT})' in report


def test_every_part_renders_an_empty_file(tmp_path):
    for name in PARTS:
        Rows(tmp_path / f'{name}.json', MACHINE).add('row', {'error': 'nothing', **WHEN})
    report = write_report(tmp_path).read_text()
    assert all(f'## {part.TITLE}' in report for part in PARTS.values())
    assert '## Targets' not in report
    assert not list(tmp_path.glob('*.png'))


def test_a_folder_without_measurements_is_rejected(tmp_path):
    with pytest.raises(UserError, match='has no measurements'):
        write_report(tmp_path)


def test_there_is_an_accuracy_for_every_variant_that_was_released():
    variants = {
        'swiftformer': swiftformer,
        'shvit': shvit,
        'mobilevitv2': mobilevitv2,
        'efficientformerv2': efficientformerv2,
    }
    assert set(TOP1) == {f'{name}_{arch}' for name, m in variants.items() for arch in m.VARIANTS}


def test_rows_in_a_file_are_lines(tmp_path):
    rows = Rows(tmp_path / 'part.json', MACHINE)
    rows.add('a', {'seconds': seconds(ours=1.0)})
    rows.add('b', {'seconds': seconds(ours=2.0)})
    text = (tmp_path / 'part.json').read_text()
    assert len(text.splitlines()) == 7
    assert json.loads(text)['rows']['b'] == {'seconds': {'ours': [2.0, 2.0, 2.0]}}
