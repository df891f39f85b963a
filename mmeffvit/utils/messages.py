"""Messages of long jobs, silent unless a program asks for them, as our commands do."""

import logging
from collections.abc import Callable
from typing import TextIO

logger = logging.getLogger('mmeffvit')
console: list[tuple[TextIO, TextIO]] = []  # streams of messages while others are redirected

# shows the steps of a job in place of a line each, on a terminal
live: list[Callable[[str], None]] = []


def step(text: str) -> None:
    """Report a step of a job, which a terminal shows until the next one."""
    if live:
        live[-1](text)
    else:
        logger.info(text)
