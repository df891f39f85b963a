"""Interruptions end a program even where Python ignores exceptions."""

import signal

import pytest

from mmeffvit.utils.interrupts import Interrupted, Raiser, handled, raise_lost


class Finalized:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
def test_an_interruption_lost_in_a_finalizer_is_raised_again():
    with handled(Raiser()):
        raise_lost()  # there was none
        finalized = Finalized()
        del finalized
        with pytest.raises(Interrupted) as caught:
            raise_lost()
    assert caught.value.number == signal.SIGTERM
    Raiser()
    raise_lost()  # a new program has its own
