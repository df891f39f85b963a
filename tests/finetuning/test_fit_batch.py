"""The batch size that memory permits: found by steps that are really made."""

import pytest
import torch

from mmeffvit.datasets.shapes import ShapesSpec
from mmeffvit.finetuning import fit_batch
from mmeffvit.finetuning.fit_batch import fitting_sizes, free_memory, largest_batch, measuring
from tests.conftest import run_tool_here
from tests.preparation.sets import write_yolo

MIB = 2**20


def test_sizes_are_tried_as_long_as_the_next_one_should_fit():
    tried = []
    used = {2: 300, 4: 500, 8: 900, 16: 1700}
    found = list(fitting_sizes(tried.append, lambda: used[tried[-1]], 1000, 64))
    assert found == [(2, 300), (4, 500), (8, 900)]
    assert tried == [2, 4, 8]  # 16 would take 1700: it is not tried
    assert list(fitting_sizes(tried.append, lambda: 300, 200, 64)) == []
    assert len(list(fitting_sizes(tried.append, lambda: 0, 200, 4))) == 2


def test_memory_that_runs_out_ends_the_search():
    def step(size: int) -> None:
        if size > 4:
            raise torch.OutOfMemoryError

    assert [size for size, _ in fitting_sizes(step, lambda: 0, 1, 64)] == [2, 4]


def test_the_peak_of_a_step_is_measured():
    with measuring('cpu') as peak:
        held = torch.ones(64 * MIB // 4)
        del held
        assert 60 * MIB < peak() < 128 * MIB
    assert 100 * MIB < free_memory() < 2**50


@pytest.mark.slow
def test_a_run_gets_the_batch_size_that_fits(tmp_path, monkeypatch):
    root = write_yolo(tmp_path / 'bolts', 20, 3, spec=ShapesSpec(side=64, max_objects=2))
    written = []
    measured = fit_batch.largest_batch

    def record(*arguments: object, **options: object) -> int:
        written.append(measured(*arguments, **options))
        raise KeyboardInterrupt  # before training

    monkeypatch.setattr('mmeffvit.finetuning.run.largest_batch', record)
    options = ('--batch', 'auto', '--weights', 'none', '--processes', 1)
    run = run_tool_here('train', root, '--work-dir', tmp_path / 'work', *options)
    assert written == [4], run.stdout
    assert '--batch auto: 4 images take 0.' in run.stdout
    config = tmp_path / 'work' / 'rtmdet_swiftformer_xs.py'
    monkeypatch.setattr(fit_batch, 'free_memory', lambda: -MIB)
    with pytest.raises(fit_batch.UserError, match='two images do not fit in -0.0 GiB'):
        largest_batch(config, 4, 1)
