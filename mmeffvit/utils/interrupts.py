"""Ctrl-C, SIGTERM and SIGHUP: end at once, by an exception, or after a step that must finish."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# environment variable of processes whose parent prints that they were interrupted
PARENT_REPORTS = 'MMEFFVIT_PARENT_REPORTS'
HANDLERS: list[Callable[[int, FrameType | None], Any]] = []  # those of ``handled`` at work
REPEATED = 2.0  # seconds: torchrun forwards a signal that the terminal sends to all processes


class Interrupted(KeyboardInterrupt):
    """Raised by the signal ``number``, so that all have the same cleanup."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def reports() -> bool:
    """Whether this process prints its end: one of several processes that train together does."""
    return PARENT_REPORTS not in os.environ and is_first_process()


def is_first_process() -> bool:
    """Whether this is the only process, or the first of those that torchrun started."""
    return not int(os.environ.get('RANK', 0))


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle the signals by a function; outside of the main thread, they are unchanged.

    So is SIGHUP where the caller ignores it, as ``nohup`` does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    end_forked_by_sigterm()
    HANDLERS.append(handler)
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = SIGNALS[:-1] if is_ignored else SIGNALS
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        HANDLERS.remove(handler)
        for number, earlier in before.items():
            signal.signal(number, earlier)


@cache
def end_forked_by_sigterm() -> None:
    """Let SIGTERM end a forked process at any moment, as it does without a handler of Python.

    Python loses signals that a process receives between the fork and its setup, and handles one
    that comes just before a blocking call only after it. ``multiprocessing.Pool`` waits for the
    processes that it ends so (mmdet's VOC metric uses one), and would wait forever.
    """
    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, SIGNALS)
    unblock = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, SIGNALS)

    def unblock_forked() -> None:
        if signal.getsignal(signal.SIGTERM) in HANDLERS:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=unblock_forked)


def exit_at_once(number: int, frame: FrameType | None = None) -> None:
    """End during imports: there is nothing to clean up, and exceptions may be lost."""
    if reports():
        with suppress(OSError):  # a terminal that was closed
            os.write(sys.__stderr__.fileno(), b'interrupted\n')
    os._exit(128 + number)


class Raiser:
    """Handler that raises :class:`Interrupted`; forked processes end without a message.

    Attributes:
        number: The last signal that was received; 0 if none was.
        is_ending: Whether further signals raise nothing.
    """

    def __init__(self) -> None:
        self.owner, self.number, self.time, self.is_ending = os.getpid(), 0, -REPEATED, False

    def __call__(self, number: int, frame: FrameType | None = None) -> None:
        if os.getpid() != self.owner:
            os._exit(0)  # for other codes, torch raises an error in the parent of a loader process
        is_repeated = time.monotonic() - self.time < REPEATED
        self.number, self.time = number, time.monotonic()
        # torch would raise an error for each of its loader processes that ends by the same signal
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not (is_repeated or self.is_ending):
            raise Interrupted(number)


def raise_lost() -> None:
    """Raise an interruption again if the program continues after it.

    Python ignores exceptions in finalizers and in callbacks of C.
    """
    for handler in HANDLERS:
        if isinstance(handler, Raiser) and handler.number:
            raise Interrupted(handler.number)


@contextmanager
def deferred() -> Iterator[None]:
    """Let a step finish before a signal ends the program.

    For code in C++ and Rust, which an exception of Python can abort.
    """
    received: list[int] = []
    try:
        with handled(lambda number, frame: received.append(number)):
            yield
    finally:
        if received:
            signal.raise_signal(received[0])
