"""Curves: rows of resumed runs are joined, and the figure shows their values."""

import json
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.analysis.curves import moving_mean, plot_curves, read_history


def write_run(work_dir: Path, time: str, rows: list[dict], tail: str = '') -> None:
    folder = work_dir / time / 'vis_data'
    folder.mkdir(parents=True)
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    (folder / 'scalars.json').write_text(text + tail)


def losses(start: int, stop: int, value: float) -> list[dict]:
    return [
        dict(step=i, iter=i, epoch=i // 4 + 1, lr=0.1 / i, loss=value, loss_cls=value / 2)
        for i in range(start, stop)
    ]


def test_a_resumed_run_replaces_what_was_lost(tmp_path):
    metric = 'coco/bbox_mAP'
    write_run(
        tmp_path, '20260101_000000', [*losses(1, 10, 3.0), dict(step=1, **{metric: 0.1})],
        tail='{"step": 10, "lo',
    )  # fmt: skip
    write_run(tmp_path, '20260102_000000', [*losses(5, 9, 2.0), dict(step=2, **{metric: 0.2})])
    (tmp_path / 'config.py').touch()
    history = read_history(tmp_path)
    assert history.name == 'config'
    assert [row['step'] for row in history.train] == list(range(1, 9))
    assert [row['loss'] for row in history.train] == [3.0] * 4 + [2.0] * 4
    assert [row[metric] for row in history.val] == [0.1, 0.2]
    assert history.val_unit == 'epoch'


def test_the_folder_of_a_run_on_a_dataset_stands_for_the_run_in_it(tmp_path):
    write_run(tmp_path / 'run', '20260101_000000', losses(1, 9, 3.0))
    (tmp_path / 'run' / 'model.py').write_text('model = dict()')
    (tmp_path / 'run' / 'epoch_1.pth').touch()
    assert len(read_history(tmp_path).train) == 8


def test_validation_of_iteration_based_runs_is_plotted_over_iterations(tmp_path):
    rows = [{k: v for k, v in row.items() if k != 'epoch'} for row in losses(1, 10, 1.0)]
    write_run(tmp_path, '20260101_000000', [*rows, dict(step=9, mIoU=50.0)])
    assert read_history(tmp_path).val_unit == 'iteration'


def test_the_smoothed_curve_does_not_lag():
    falling = np.linspace(9, 1, 101)
    assert np.allclose(moving_mean(falling, 10), falling)
    assert moving_mean(np.array([0.0, 3.0, 0.0]), 1).tolist() == [0, 1, 0]


def test_several_runs_share_one_picture(tmp_path):
    for name, value in (('a', 1.0), ('b', 2.0)):
        rows = [*losses(1, 300, value), dict(step=1, mIoU=50.0, aAcc=80.0, time=1.0)]
        rows[5]['loss'] = float('nan')
        write_run(tmp_path / name, '20260101_000000', rows)
    plot_curves([tmp_path / 'a'], tmp_path / 'one.png')
    plot_curves([tmp_path / 'a', tmp_path / 'b'], tmp_path / 'two.png')
    one, two = (cv2.imread(str(tmp_path / f'{name}.png')) for name in ('one', 'two'))
    assert one.shape == two.shape
    assert not has_orange(one)
    assert has_orange(two)


def has_orange(picture: np.ndarray) -> bool:
    """Whether the loss panel has the color of a second run, #ff7f0e."""
    panel = picture[: picture.shape[0] // 2, : picture.shape[1] // 2].astype(int)  # BGR
    return bool((np.abs(panel - (14, 127, 255)).max(axis=-1) < 30).any())  # lines are antialiased


def test_numbers_that_no_float_holds_are_left_out(tmp_path):
    rows = [*losses(1, 4, 2.0), dict(step=-(10**400), loss=1.0), dict(step=5, lr=0.1, loss=10**400)]
    write_run(tmp_path, '20260101_000000', rows)
    history = read_history(tmp_path)
    assert [row['step'] for row in history.train] == [1, 2, 3, 5]
    assert 'loss' not in history.train[-1]
    plot_curves([tmp_path], tmp_path / 'curves.png')
