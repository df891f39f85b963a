"""Which checkpoint of a run is the best, also if the run is interrupted and resumed."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.runner import Runner

from mmeffvit.cli.console import RunConsole
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine.checkpoints import EarlyStoppingHook
from mmeffvit.train.engine.train import make_interruptible
from mmeffvit.zoo.runs import best_checkpoint
from tests.cli.test_console import Given, run

KEY = 'coco/bbox_mAP'


def train(
    folder: Path,
    values: tuple[float, ...],
    *,
    epochs: int = 3,
    prepare: object = make_interruptible,
    resume: Path | None = None,
    rule: str | None = 'greater',
    key: str | list[str] | None = KEY,
    by_epoch: bool = True,
) -> Runner:
    """Train with these metrics; ``resume`` is the checkpoint to go on from."""
    folder.mkdir(exist_ok=True)
    most = dict(max_epochs=epochs) if by_epoch else dict(max_iters=epochs, val_interval=1)
    saving = dict(type='CheckpointHook', save_best=key, rule=rule, by_epoch=by_epoch, interval=1)
    given = dict(resume=True, load_from=str(resume)) if resume else {}
    return run(
        folder, prepare, dict(by_epoch=by_epoch, **most), images=2, values=values,
        default_hooks=dict(checkpoint=saving), **given,
    )  # fmt: skip


def best_of(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix('best_coco_bbox_mAP_') for path in folder.glob('best_*'))


@pytest.mark.parametrize('rule', ['greater', None])
@pytest.mark.parametrize(
    ('values', 'best'), [((0.0, 0.0, 0.0), 3), ((0.0, 0.2, 0.1), 2), ((0.3, 0.2, 0.3), 3)]
)
def test_the_last_of_equal_checkpoints_is_the_best(values, best, rule, tmp_path):
    train(tmp_path, values, rule=rule, key='auto' if rule is None else KEY)
    assert best_of(tmp_path) == [f'epoch_{best}.pth']
    assert best_checkpoint(tmp_path).path.name == f'best_coco_bbox_mAP_epoch_{best}.pth'


class SecondMetric(Given):
    """Another metric that is given in advance."""

    default_prefix = 'second'


def test_each_of_two_metrics_has_its_best_checkpoint(tmp_path):
    def with_second(*values: float) -> Callable[[Runner], None]:
        def prepare(runner: Runner) -> None:
            make_interruptible(runner)
            runner.val_loop.evaluator.metrics.append(SecondMetric(values))

        return prepare

    keys = [KEY, 'second/bbox_mAP']
    train(tmp_path, (0.1, 0.9, 0.5), key=keys, prepare=with_second(0.9, 0.1, 0.5))
    assert best_of(tmp_path) == ['best_second_bbox_mAP_epoch_1.pth', 'epoch_2.pth']
    train(
        tmp_path, (0.2,), key=keys, prepare=with_second(0.95), epochs=4,
        resume=tmp_path / 'epoch_3.pth',
    )  # fmt: skip
    assert best_of(tmp_path) == ['best_second_bbox_mAP_epoch_4.pth', 'epoch_2.pth']


class StoppedError(Exception):
    """The run ends here."""


def test_the_best_checkpoint_stays_until_a_better_one_is_on_disk(tmp_path):
    def stops_at_best(runner: Runner) -> None:
        make_interruptible(runner)
        save = runner.save_checkpoint

        def stop(folder: str, filename: str, *arguments: object, **options: object) -> None:
            if filename.startswith('best_') and runner.epoch == 2:
                raise StoppedError
            save(folder, filename, *arguments, **options)

        runner.save_checkpoint = stop

    with pytest.raises(StoppedError):
        train(tmp_path, (0.1, 0.9, 0.5), prepare=stops_at_best)
    assert best_of(tmp_path) == ['epoch_1.pth']
    train(tmp_path, (0.9, 0.5), resume=tmp_path / 'epoch_2.pth')
    assert best_of(tmp_path) == ['epoch_2.pth']


@pytest.mark.parametrize('by_epoch', [True, False])
def test_a_validation_that_was_interrupted_is_run_when_the_run_is_resumed(by_epoch, tmp_path, log):
    with pytest.raises(StopIteration):  # at the second validation
        train(tmp_path, (0.1,), by_epoch=by_epoch)
    unit = 'epoch' if by_epoch else 'iter'
    latest = tmp_path / f'{unit}_2.pth'
    train(tmp_path, (0.9, 0.5), resume=latest, by_epoch=by_epoch)
    assert best_of(tmp_path) == [f'{unit}_2.pth']
    assert log.text.count('validating the checkpoint') == 1
    # the control: what was validated is not validated again
    train(tmp_path, (), epochs=2, resume=latest, by_epoch=by_epoch)
    train(tmp_path, (), resume=tmp_path / f'{unit}_3.pth', by_epoch=by_epoch)
    assert log.text.count('validating the checkpoint') == 1


@pytest.mark.parametrize('by_epoch', [True, False])
def test_a_resumed_run_may_begin_with_its_first_validation(by_epoch, tmp_path, log):
    def shown(runner: Runner) -> None:
        runner.register_hook(RunConsole(stream))
        make_interruptible(runner)

    stream = io.StringIO()
    with pytest.raises(StopIteration):
        train(tmp_path, (), by_epoch=by_epoch)
    latest = tmp_path / f'{"epoch" if by_epoch else "iter"}_1.pth'
    train(tmp_path, (0.9, 0.5, 0.6), resume=latest, by_epoch=by_epoch, prepare=shown)
    assert log.text.count('validating the checkpoint') == 1
    assert stream.getvalue().count('(best 90.0)') == 3


def test_a_resumed_run_deletes_nothing_outside_of_its_folder(tmp_path):
    first, second, foreign = (tmp_path / name for name in ('first', 'second', 'thesis'))
    foreign.mkdir()
    train(first, (0.1, 0.2, 0.2), epochs=2)
    kept = best_of(first)
    train(second, (0.9,), resume=first / 'epoch_2.pth')
    train(tmp_path / 'third', (0.9,), resume=first / 'epoch_2.pth', key=None)
    assert best_of(first) == kept
    assert best_of(second) == ['epoch_3.pth']
    content = read_content(first / 'epoch_2.pth')
    for place in (foreign, first / 'epoch_1.pth'):
        content['message_hub']['runtime_info']['best_ckpt'] = str(place)
        torch.save(content, tmp_path / 'found.pth')
        train(first, (0.9,), resume=tmp_path / 'found.pth')
        assert place.exists()


@pytest.mark.parametrize(
    ('values', 'last'), [((0.5, 0.4, 0.3, 0.2), 3), ((0.0,) * 5, 3), ((0.1, 0.2, 0.1, 0.3, 0.1), 5)]
)
def test_a_run_stops_early_after_as_many_validations_if_it_is_resumed(values, last, tmp_path, log):
    def stops_early(runner: Runner) -> None:
        make_interruptible(runner)
        for patience in (2, 9):  # the second does not revoke the first
            runner.register_hook(EarlyStoppingHook(monitor=KEY, rule='greater', patience=patience))

    whole = train(tmp_path / 'whole', values, epochs=5, prepare=stops_early)
    assert whole.epoch == last
    with pytest.raises(StopIteration):  # at the third validation
        train(tmp_path / 'parts', values[:2], epochs=5, prepare=stops_early)
    found = train(
        tmp_path / 'parts', values[2:], epochs=5, prepare=stops_early,
        resume=tmp_path / 'parts' / 'epoch_2.pth',
    )  # fmt: skip
    assert found.epoch == last
    again = train(
        tmp_path / 'parts', (), epochs=5, prepare=stops_early,
        resume=tmp_path / 'parts' / f'epoch_{last}.pth',
    )  # fmt: skip
    assert again.epoch == last
    line = f'stopped early: {KEY} did not improve in 2 validations; to continue, resume with more'
    assert log.text.count(line) == (3 if last < 5 else 0)
    longer = train(
        tmp_path / 'parts', (0.0,) * 4, epochs=9, prepare=stops_early,
        resume=tmp_path / 'parts' / f'epoch_{last}.pth',
    )  # fmt: skip
    assert longer.epoch == last + 2  # the count starts from 0 again


def test_a_first_validation_without_a_best_one_is_no_error_of_an_automatic_metric(tmp_path):
    train(tmp_path, (0.5, 0.4), epochs=2, rule=None, key='auto')
    train(tmp_path, (0.1,), rule=None, key='auto', resume=tmp_path / 'epoch_2.pth')
    assert best_of(tmp_path) == ['epoch_1.pth']


def test_another_metric_has_no_best_checkpoint_yet(tmp_path):
    train(tmp_path, (0.9, 0.9), epochs=2)
    content = read_content(tmp_path / 'epoch_2.pth')
    other = tmp_path / 'best_mIoU_epoch_1.pth'
    other.touch()
    content['message_hub']['runtime_info']['best_ckpt'] = str(other)
    torch.save(content, tmp_path / 'epoch_2.pth')
    train(tmp_path, (0.1,), resume=tmp_path / 'epoch_2.pth')
    assert (tmp_path / 'best_coco_bbox_mAP_epoch_3.pth').is_file()
    assert other.exists()
