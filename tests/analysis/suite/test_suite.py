"""A suite survives failures, resumes after being killed, and keeps one consistent table."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmeffvit.analysis.suite.child import progress_in, run_logged
from mmeffvit.analysis.suite.results import Row, Table
from mmeffvit.analysis.suite.run import Job, SuiteOptions, enter, find_configs, run_suite
from mmeffvit.errors import UserError
from mmeffvit.utils.files import locked
from mmeffvit.zoo import find_model
from tests.conftest import ROOT, output_of, rejected, run_command_here
from tests.train.engine.test_processes import running

CONFIGS = ROOT / 'configs'
# the published numbers are those of the config of this name
FIRST = 'maskrcnn_swiftformer_l1'
TINY = """
_base_ = BASE
model = dict(
    backbone=dict(arch=dict(_delete_=True, channels=(8, 8, 16, 16), depths=(1, 1, 1, 1))),
    neck=dict(in_channels=[8, 8, 16, 16]),
    test_cfg=dict(rcnn=dict(score_thr=0.0)),  # after so short a training scores are low
)
train_dataloader = dict(batch_size=2)
train_cfg = dict(max_epochs=3, val_interval=99)
param_scheduler = [dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=20)]
default_hooks = dict(logger=dict(interval=1))
"""


@pytest.fixture(scope='module')
def configs(tmp_path_factory) -> dict[str, Path]:
    """A run, and a config whose model does not exist."""
    folder = tmp_path_factory.mktemp('configs')
    base = repr(str(CONFIGS / 'maskrcnn_swiftformer_xs_shapes.py'))
    written = {}
    for name in (FIRST, 'second'):
        text = TINY.replace('BASE', base)
        if name == 'second':
            text = text.replace('backbone=dict(', "backbone=dict(type='mmeffvit.Nothing', ")
        written[name] = folder / f'{name}.py'
        written[name].write_text(text)
    return written


def wait_until(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'timed out'
        time.sleep(0.05)


def kill_in_training(configs: dict[str, Path], work_dir: Path, data: Path) -> None:
    """Start a suite, and kill it in the middle of its first training."""
    arguments = [*configs.values(), '--work-dir', work_dir, '--cfg-options', f'data_root={data}/']
    command = [sys.executable, '-m', 'mmeffvit', 'suite', *map(str, arguments)]
    suite = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until(lambda: (work_dir / FIRST / 'epoch_1.pth').exists(), 300)
    suite.send_signal(signal.SIGKILL)
    suite.wait()
    wait_until(
        lambda: not any(str(work_dir) in each for each in running()), 30
    )  # the training is killed with its suite
    rows = json.loads((work_dir / 'suite.json').read_text())
    assert rows[FIRST]['status'] == 'training'
    assert rows['second']['status'] == 'waiting'


# one test, since processes of pytest-xdist share no fixture and the runs take most of a minute
@pytest.mark.slow
@pytest.mark.variant
def test_a_killed_suite_resumes_and_a_failing_config_does_not_stop_the_other(
    configs, shapes, tmp_path, capsys
):
    kill_in_training(configs, tmp_path, shapes)
    options = SuiteOptions(tmp_path, {'data_root': f'{shapes}/'})
    assert run_suite(map(str, reversed(configs.values())), options) == 1
    output = capsys.readouterr().out
    assert f'[2/2] {FIRST}: training, train [2][' in output
    assert ' left, ' in output
    log = (tmp_path / FIRST / 'suite.log').read_text()
    assert 'resumed epoch: 1' in log
    assert 'failed: second: training: ' in output
    assert 'mmeffvit.Nothing' in output
    assert '1 of 2 done' in output
    assert not list(tmp_path.rglob('*.partial'))
    check_table(tmp_path)
    check_a_finished_config_is_skipped(tmp_path, configs, shapes, capsys)


def check_table(work_dir: Path) -> None:
    """The numbers of the paper and ours are in both files."""
    rows = json.loads((work_dir / 'suite.json').read_text())
    statuses = {name: row['status'] for name, row in rows.items()}
    assert statuses == {FIRST: 'done', 'second': 'failed'}
    first = rows[FIRST]
    source, paper = find_model(FIRST).published()
    assert (first['source'], first['paper']) == (source, paper)
    assert first['ours']['box AP'] == round(100 * first['metrics']['coco/bbox_mAP'], 1)
    assert first['checkpoint'] == str(work_dir / FIRST / 'epoch_3.pth')
    assert first['parameters'] > 10_000
    assert set(first['versions']) >= {'python', 'torch', 'mmdet', 'mmeffvit'}
    assert rows['second']['ours'] == {}
    text = (work_dir / 'suite.md').read_text()
    box, mask = first['ours']['box AP'], first['ours']['mask AP']
    parameters = f'{first["parameters"] / 1e6:.2f} M'
    numbers = f'{paper["box AP"]} | {box} | {paper["mask AP"]} | {mask} | {source}'
    assert f'| {FIRST} | done | {parameters} | {numbers} | {first["date"][:10]}' in text
    assert '| second | failed |  |  |  |  |  |  |  | ' in text  # not published


def check_a_finished_config_is_skipped(
    work_dir: Path, configs: dict[str, Path], data: Path, capsys: pytest.CaptureFixture
) -> None:
    done = [str(configs[FIRST])]
    options = SuiteOptions(work_dir, {'data_root': f'{data}/'})
    assert run_suite(done, options) == 0
    assert capsys.readouterr().out.count('already done') == 1
    with pytest.raises(UserError, match=r'started with .*data_root'):
        run_suite(done, SuiteOptions(work_dir, {'data_root': 'elsewhere/'}))


def test_several_processes_are_started_by_torchrun(tmp_path, monkeypatch):
    started = []

    def start(command, log, say):
        started.append(' '.join(command))
        return 'stopped by the test'

    monkeypatch.setattr('mmeffvit.analysis.suite.run.run_logged', start)
    for options in (SuiteOptions(tmp_path, amp=True, processes=4), SuiteOptions(tmp_path)):
        table = Table(tmp_path)
        table.rows['retinanet_shvit_s4'] = Row('')
        Job(Path('retinanet_shvit_s4.py'), table, options, '').run()
    several, one = started
    assert '--standalone --nproc_per_node=4 ' in several
    assert several.endswith(
        'train.py retinanet_shvit_s4.py --resume --amp '
        f'--work-dir {tmp_path}/retinanet_shvit_s4 --verbose --launcher pytorch'
    )
    assert 'torchrun' not in one


@pytest.mark.parametrize(
    ('line', 'progress'),
    [
        (
            '2026/11/21 - mmengine - INFO - Epoch(train)  [1][20/100]  lr: 1.0e-03  '
            'eta: 1 day, 2:03:04  time: 0.1',
            'train [1][20/100], 1 day, 2:03:04 left',
        ),
        (
            'Iter(train) [ 50/4000]  lr: 1.0e-03  eta: 0:20:00  time: 0.1',
            'train [ 50/4000], 0:20:00 left',
        ),
        ('Epoch(test) [4/4]    coco/bbox_mAP: 0.1', None),
    ],
)
def test_progress_is_read_from_the_log_of_the_runner(line, progress):
    assert progress_in(line) == progress


def test_the_reason_for_a_failure_is_its_message(tmp_path):
    def fail(code: str):
        return run_logged([sys.executable, '-c', code], tmp_path / 'log', print)

    assert fail('') is None
    assert fail('import sys; print("error: no data"); print("x"); sys.exit(2)') == 'no data'
    assert fail('raise KeyError("name")') == "KeyError: 'name'"
    assert fail('raise SystemExit(3)') == 'exit code 3'
    assert fail('import os; os.kill(os.getpid(), 9)') == 'ended by SIGKILL'
    assert 'no data' in (tmp_path / 'log').read_text()


def test_the_table_has_the_metrics_of_classifiers(tmp_path):
    table = Table(tmp_path)
    table.rows['a'] = Row('a.py', paper={'Top 1 Accuracy': 72.8}, ours={'Top 1 Accuracy': 72.5})
    assert '| paper Top 1 Accuracy | ours Top 1 Accuracy | published by' in str(table)
    assert '| 72.8 | 72.5 |' in str(table)


def test_a_table_of_other_values_is_rejected(tmp_path):
    (tmp_path / 'suite.json').write_text('{"a": {"config": "a.py", "date": 5}}')
    with pytest.raises(UserError, match=r'suite\.json is not a results table .*; move it away'):
        Table(tmp_path)


def test_two_suites_cannot_share_a_folder_nor_two_configs_a_name(tmp_path):
    other = tmp_path / 'maskrcnn_shvit_s4.py'
    other.touch()
    with locked(tmp_path, 'a suite'), pytest.raises(UserError, match='a suite'):
        run_suite(['maskrcnn_shvit_s4'], SuiteOptions(tmp_path))
    with pytest.raises(UserError, match='maskrcnn_shvit_s4'):
        find_configs(['maskrcnn_shvit_s4', str(other)])
    names = [path.stem for path in find_configs(['maskrcnn_shvit_*', 'retinanet_shvit_s4.py'])]
    assert names == ['maskrcnn_shvit_s4', 'retinanet_shvit_s4']
    (tmp_path / 'runs[1]').mkdir()
    bracketed = other.rename(tmp_path / 'runs[1]' / other.name)
    assert find_configs([str(bracketed)]) == [bracketed]


def test_results_of_another_config_or_of_released_weights_are_not_kept(tmp_path):
    name, options = 'ssdlite_mobilevitv2_050', SuiteOptions(tmp_path)
    mine = tmp_path / 'mine' / f'{name}.py'
    mine.parent.mkdir()
    mine.write_text(f"_base_ = '{CONFIGS}/{name}.py'\nseed = 1\n")
    table = Table(tmp_path)
    enter([mine], table, options)
    enter([mine], table, options)  # as after an interruption
    mine.write_text('seed = (')  # its training tells
    enter([mine], table, options)
    mine.write_text(f"_base_ = '{CONFIGS}/{name}.py'\nseed = 2\n")
    with pytest.raises(UserError, match=f'{name} was started with other settings than'):
        enter([mine], table, options)
    with pytest.raises(UserError, match=r'with .*cfg_options.*, not with .*released'):
        enter([mine], Table(tmp_path), SuiteOptions(tmp_path, released=True))


def test_untrusted_text_is_escaped_in_the_table(tmp_path):
    table = Table(tmp_path)
    hostile = '# | `x` <script>alert(1)</script>\n\n| [a](javascript:b) ![c](d) &lt; \\| **e**'
    table.rows[hostile] = Row('own.py', source=hostile, reason=hostile, versions={'torch': hostile})
    lines = str(table).splitlines()
    (row,) = [line for line in lines if line.startswith('| #')]
    bars = re.findall(r'(?<!\\)(?:\\\\)*\|', row)
    assert len(bars) == len(re.findall(r'\|', lines[2]))
    assert len(lines) == 2 + 3 + 2 + 2  # title, table, a note for the reason and one for versions
    for mark in re.finditer(r'[`<>\[*]', '\n'.join(lines)):
        before = '\n'.join(lines)[: mark.start()]
        assert (len(before) - len(before.rstrip('\\'))) % 2 == 1, before[-20:]


@pytest.mark.slow
def test_released_models_are_tested_and_not_trained(shapes, tmp_path, monkeypatch):
    from mmeffvit.models.checkpoints.sources import place_of
    from tests.released import cvnets, files

    name = 'ssdlite_mobilevitv2_050'
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'torch'))
    place = place_of(find_model(name).weights)  # as one who has no network puts it there
    place.parent.mkdir(parents=True)
    files.save_cvnets(files.with_random_weights(cvnets.RELEASES[name].network()), place)
    command = ['suite', '--released', name, '--work-dir', tmp_path / 'suite',
               '--cfg-options', f'data_root={files.as_coco(shapes, tmp_path / "coco")}',
               'test_dataloader.num_workers=0']  # fmt: skip
    output_of(*command)
    row = json.loads((tmp_path / 'suite' / 'suite.json').read_text())[name]
    assert (row['status'], row['checkpoint']) == ('done', find_model(name).weights)
    assert (row['paper'], row['source']) == ({'box AP': 21.24}, "authors' model zoo")
    assert 0 <= row['ours']['box AP'] < 5  # of random weights
    assert not list((tmp_path / 'suite').rglob('*.pth'))
    assert 'already done' in run_command_here(*command).stdout


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((), '--released'),
        (('--released', 'maskrcnn_swiftformer_l1'), 'maskrcnn_swiftformer_l1'),
        (('--released', '--amp'), '--released'),
    ],
)
def test_invalid_options_with_released_are_reported(arguments, message, tmp_path):
    assert message in rejected('suite', '--work-dir', tmp_path, *arguments)
