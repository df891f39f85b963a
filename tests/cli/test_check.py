"""`mmeffvit check` of datasets, as `mmeffvit train` would be given."""

import pytest

from tests.conftest import output_of, rejected, run_command_here
from tests.data.sets import write_yolo


@pytest.fixture
def bolts(tmp_path):
    return write_yolo(tmp_path / 'bolts', 4, 2)


@pytest.mark.parametrize('target', ['', 'data.yaml'])
def test_a_data_set_without_faults_is_summarized(bolts, target):
    before = sorted(bolts.rglob('*'))
    printed = output_of('check', bolts / target)
    assert 'YOLO, 4 classes' in printed
    assert printed.strip().endswith('nothing is broken')
    assert sorted(bolts.rglob('*')) == before


def test_faults_are_listed_with_file_line_and_fix(bolts):
    labels = bolts / 'labels' / 'train' / 'train_0.txt'
    labels.write_text('9 0.5 0.5 0.2 0.2\n')
    run = run_command_here('check', bolts)
    assert run.returncode == 1
    assert f'{labels}, line 1: 9' in run.stdout
    assert 'number classes from 0' in run.stdout
    assert run.stdout.strip().endswith('class numbers without a name (1)')


def test_options_of_the_other_target_are_rejected(bolts):
    message = rejected('check', bolts, '--num-images', 3)
    assert 'is a dataset, for which --num-images does nothing' in message
    message = rejected('check', 'retinanet_shvit_s4', '--format', 'coco')
    assert 'is a config, for which --format does nothing' in message
