"""The console of a run: what was found, a line per epoch, the result; the rest is in files."""

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.runner import Runner
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import Dataset

from mmeffvit.cli.console import RATED, RunConsole, summary, working
from mmeffvit.utils.messages import progress, step

SKIPPED = 150  # steps of a run that is resumed


class Model(nn.Module):
    """Learns nothing, in the interface of mmengine's runner."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def train_step(self, data: dict, optim_wrapper: object) -> dict[str, Tensor]:
        return dict(loss=torch.tensor(0.5))

    def val_step(self, data: dict) -> list[Tensor]:
        return [self.weight]


class Given(BaseMetric):
    """APs that are given in advance, one per validation."""

    default_prefix = 'coco'

    def __init__(self, values: tuple[float, ...]) -> None:
        super().__init__()
        self.values = iter(values)

    def process(self, data_batch: object, data_samples: object) -> None:
        self.results.append(None)

    def compute_metrics(self, results: list) -> dict[str, float]:
        return dict(bbox_mAP=next(self.values))


class Slow(Model):
    """Takes some time per step, and is stopped after a few."""

    def __init__(self, seconds: float, steps: int) -> None:
        super().__init__()
        self.seconds, self.left = seconds, steps

    def train_step(self, data: dict, optim_wrapper: object) -> dict[str, Tensor]:
        if not self.left:
            raise StopIteration
        self.left -= 1
        time.sleep(self.seconds)
        return super().train_step(data, optim_wrapper)


def run(
    tmp_path: Path,
    prepare: RunConsole | Callable[[Runner], None],
    train_cfg: dict,
    model: Model | None = None,
    images: int = 24,
    data: Dataset | None = None,
    values: tuple[float, ...] = (0.1, 0.3, 0.2),
    **options: object,
) -> Runner:
    """Train with a console, or after another preparation."""
    data = data or [dict(inputs=torch.zeros(3, 4, 4)) for _ in range(images)]
    loader = dict(dataset=data, sampler=dict(type='DefaultSampler'), batch_size=4, num_workers=0)
    runner = Runner(
        model or Model(),
        str(tmp_path),
        train_dataloader=loader,
        train_cfg=train_cfg,
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
        val_dataloader=loader,
        val_cfg={},
        val_evaluator=Evaluator(Given(values)),
        experiment_name=str(tmp_path),
        default_scope='mmengine',
        **options,
    )
    if isinstance(prepare, RunConsole):
        runner.register_hook(prepare)
    else:
        prepare(runner)
    runner.train()
    return runner


@pytest.mark.parametrize(
    ('train_cfg', 'progress'),
    [
        (dict(by_epoch=True, max_epochs=3), ('epoch 1/3', 'epoch 2/3', 'epoch 3/3')),
        (dict(by_epoch=False, max_iters=6, val_interval=2), ('step 2/6', 'step 4/6', 'step 6/6')),
    ],
)
def test_every_validation_has_a_line_with_the_best(train_cfg, progress, tmp_path):
    stream = io.StringIO()
    run(tmp_path, RunConsole(stream), train_cfg)
    model, log, *lines = stream.getvalue().splitlines()
    assert model == (
        'Model, 0.0 M parameters; 24 training images, 24 validation images; from random weights'
    )
    assert log.startswith('log: ')
    for line, start, metric in zip(
        lines, progress, ('10.0 (best 10.0)', '30.0 (best 30.0)', '20.0 (best 30.0)'), strict=True
    ):
        assert line.startswith(f'{start}  loss 0.5  ')
        assert line.endswith(f'box AP {metric}')


def test_the_time_of_a_run_is_estimated_after_20_steps(tmp_path):
    stream = io.StringIO()
    steps = dict(by_epoch=False, max_iters=1020, val_interval=1020)
    with pytest.raises(StopIteration):
        run(tmp_path, RunConsole(stream), steps, Slow(0.02, steps=25), images=120)
    (seconds,) = re.findall(r'^about (\d+) s to go, without validation$', stream.getvalue(), re.M)
    assert 20 <= int(seconds) < 60  # 1000 steps of 20 ms, and what a busy host adds


def test_images_that_a_resumed_run_skips_are_no_part_of_its_estimate(tmp_path):
    once = dict(by_epoch=False, max_iters=SKIPPED, val_interval=SKIPPED)
    saved = dict(checkpoint=dict(type='CheckpointHook', interval=SKIPPED, by_epoch=False))
    run(tmp_path / 'once', RunConsole(io.StringIO()), once, images=2000, default_hooks=saved)
    more, stream = dict(once, max_iters=SKIPPED + 1020), io.StringIO()
    options = dict(load_from=str(tmp_path / f'once/iter_{SKIPPED}.pth'), resume=True)
    with pytest.raises(StopIteration):
        run(tmp_path / 'more', RunConsole(stream), more, Slow(0.0, 25), data=SlowData(), **options)
    (seconds,) = re.findall(r'^about (\d+) s to go, without validation$', stream.getvalue(), re.M)
    assert 8 <= int(seconds) < 30  # 1000 steps of 8 ms; 68 if 150 of these counted as steps


class SlowData(Dataset):
    """Takes 2 ms per image."""

    def __len__(self) -> int:
        return 4 * RATED + 4

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        time.sleep(0.002)
        return dict(inputs=torch.zeros(3, 4, 4))


@pytest.mark.parametrize(
    ('data', 'seconds', 'hint'), [(SlowData(), 0.0, True), (None, 0.01, False)]
)
def test_more_processes_are_suggested_where_steps_wait_for_data(data, seconds, hint, tmp_path):
    model, stream = Slow(seconds, steps=RATED), io.StringIO()
    with pytest.raises(StopIteration):
        run(tmp_path, RunConsole(stream), dict(by_epoch=True, max_epochs=1), model, 404, data)
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith('loading')]
    assert re.match(r'loading takes \d+% of a step', line)
    assert line.endswith(': try --workers 2') == hint


def test_a_terminal_has_a_live_line_that_is_gone_at_the_end(tmp_path):
    console = RunConsole()
    stream = io.StringIO()
    console.console = Console(file=stream, force_terminal=True, width=100)
    run(tmp_path, console, dict(by_epoch=True, max_epochs=3))
    assert console.live is None
    shown = stream.getvalue()
    assert 'validating, ' in shown
    assert shown.count('box AP') == 3


def test_the_summary_names_what_papers_report_else_all():
    assert summary({'coco/bbox_mAP': 0.412, 'coco/bbox_mAP_50': 0.6}, 'm') == 'm: box AP 41.2 %'
    undefined = {'coco/segm_mAP': -1.0, 'mIoU': 35.216}
    assert summary(undefined, 'm') == 'm: mIoU 35.22 %'
    assert summary({'pascal/mAP': 0.5}, 'm') == 'm: pascal/mAP 0.5'
    assert summary({}, 'm') == 'm: no metrics: nothing was detected'


class Terminal(io.StringIO):
    """A terminal as programs see it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(('terminal', 'verbose'), [(True, False), (True, True), (False, False)])
def test_steps_of_a_job_share_one_live_line_on_a_terminal_and_have_lines_elsewhere(
    terminal, verbose, monkeypatch, capsys
):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, 'stderr', stream)
    monkeypatch.setenv('TERM', 'xterm')
    with working('starting', verbose=verbose):
        for number in range(3) if verbose else progress(range(3), 'files'):
            step(f'[{number}] done')
            time.sleep(0.15)  # ten updates a second
    printed = capsys.readouterr().out.splitlines()
    lines = ['[0] done', '[1] done', '[2] done']
    if terminal and not verbose:
        assert printed == []
        assert all(line in stream.getvalue() for line in lines)
    else:
        assert printed == lines


@pytest.mark.parametrize(
    ('values', 'advice'),
    [
        ((0.001, 0.004, 0.002), ['WARNING: box AP is 0.4 % after 18 steps from random weights']),
        ((0.1, 0.3, 0.2), []),
    ],
)
def test_a_run_that_has_learned_nothing_says_so(values, advice, tmp_path):
    console = RunConsole(io.StringIO())
    runner = run(tmp_path, console, dict(by_epoch=True, max_epochs=3), values=values)
    assert [line.partition(': train longer')[0] for line in console.advice(runner)] == advice
