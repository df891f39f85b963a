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
ENDED_IN_A_CALL = """
import hashlib, multiprocessing, signal
from mmeffvit.utils.interrupts import Raiser, handled
started = multiprocessing.Event()
def work():
    started.set()
    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)  # Python handles no signal in it
def exit_code():
    process = multiprocessing.get_context('fork').Process(target=work)
    process.start()
    started.wait()
    process.terminate()
    process.join(60)
    code = process.exitcode
    process.kill()
    return code
with handled(Raiser()):
    print(exit_code())
"""
OTHER_HANDLER = """
import os, signal
from mmeffvit.utils.interrupts import Raiser, handled
with handled(Raiser()):
    pass
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
child = os.fork()
if not child:
    signal.raise_signal(signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_becomes_an_exception(number):
    with pytest.raises(Interrupted) as caught, handled(Raiser()):
        signal.raise_signal(number)
    assert caught.value.number == number
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def test_a_closed_terminal_is_ignored_after_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with handled(Raiser()):
        signal.raise_signal(signal.SIGHUP)
    assert signal.signal(signal.SIGHUP, before) == signal.SIG_IGN


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
    raise_lost()  # the program has ended


def test_a_process_that_is_ended_at_once_after_its_fork_ends():
    done = run_python('-c', ENDED_AT_BIRTH)
    assert done.stdout.split()[:20] == [str(int(signal.SIGTERM))] * 20
    assert done.stdout.strip().endswith('Interrupted')  # the parent still handles its own


def test_a_forked_process_ends_in_a_call_in_which_python_handles_no_signal():
    assert run_python('-c', ENDED_IN_A_CALL).stdout.strip() == str(-signal.SIGTERM)


def test_a_forked_process_keeps_a_handler_that_is_not_ours():
    assert run_python('-c', OTHER_HANDLER).stdout.strip() == '7'
