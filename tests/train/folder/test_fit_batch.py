"""The batch size that memory permits: found by steps that are really made."""

from mmap import mmap

import torch

from mmeffvit.train.folder.fit_batch import fitting_sizes, free_memory, measuring

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
    # not a tensor, which may get memory that was freed but is still in use by the process
    with measuring('cpu') as peak, mmap(-1, 64 * MIB) as held:
        for _ in range(64):
            held.write(bytes(MIB))
        assert 60 * MIB < peak() < 128 * MIB
    assert 100 * MIB < free_memory() < 2**50
