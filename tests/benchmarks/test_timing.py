"""Candidates run interleaved, and statistics are those of their times."""

import gc
from collections.abc import Callable

import pytest

from benchmarks.timing import Budget, interleave, speed_up


class FakeClock:
    """Time passes only when a candidate runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def candidate(self, name: str, *seconds: float) -> Callable[[], None]:
        """Takes ``seconds`` one after the other, then always the last of them."""
        left = list(seconds)

        def run() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_candidates_are_interleaved_and_the_warm_up_does_not_count():
    clock = FakeClock()
    candidates = {'a': clock.candidate('a', 9, 1, 2), 'b': clock.candidate('b', 9, 4, 4)}
    budget = Budget(seconds=100, min_rounds=1, max_rounds=2, warm_up=1)
    samples = interleave(candidates, budget, clock)
    assert clock.order == list('ababab')
    assert samples == {'a': [1, 2], 'b': [4, 4]}


@pytest.mark.parametrize(('seconds', 'rounds'), [(0, 3), (9, 5), (100, 8)])
def test_rounds_end_with_the_time_between_the_fewest_and_the_most(seconds, rounds):
    clock = FakeClock()
    budget = Budget(seconds, min_rounds=3, max_rounds=8, warm_up=0)
    samples = interleave({'a': clock.candidate('a', 2)}, budget, clock)
    assert len(samples['a']) == rounds


def test_garbage_is_not_collected_while_candidates_run():
    seen = []
    interleave({'a': lambda: seen.append(gc.isenabled())}, Budget(0, 2, 2, warm_up=0))
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_speedup_is_the_ratio_of_medians_with_deciles_of_the_rounds():
    ratio = speed_up([1.0, 2.0, 4.0], [3.0, 4.0, 20.0])
    assert ratio.median == 2.0
    # rounds: 3, 2, 5, so sorted 2, 3, 5 with deciles at 0.2 and 1.8 of the way
    assert (ratio.low, ratio.high) == pytest.approx((2.2, 4.6))
    assert str(ratio) == '2.00 (2.20 to 4.60)'
