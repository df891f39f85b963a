"""Interruptions end a program even where Python ignores exceptions."""

import signal

import pytest

from mmeffvit.utils.interrupts import Interrupted, Raiser, handled, raise_lost
from tests.conftest import run_python

ENDED_AT_BIRTH = """
import os, signal, time
from mmeffvit.utils.interrupts import Raiser, handled
with handled(Raiser()):
    for _ in range(20):
        child = os.fork()
        if not child:
            time.sleep(1)
            os._exit(7)
        os.kill(child, signal.SIGTERM)
        print(os.waitpid(child, 0)[1])
    signal.raise_signal(signal.SIGTERM)
"""


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


def test_a_process_that_is_ended_at_once_after_its_fork_ends():
    done = run_python('-c', ENDED_AT_BIRTH)
    assert done.stdout.split()[:20] == ['0'] * 20
    assert done.stdout.strip().endswith('Interrupted')  # the parent still handles its own
