"""A command in a separate process, with its output in a file and its progress on the screen."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from mmeffvit.train.engine.processes import start_tied
from mmeffvit.utils.files import own_file
from mmeffvit.utils.text import duration

# Epoch(train)  [1][20/100]  lr: ...  eta: 0:03:21  time: ...
PROGRESS = re.compile(
    r'(?:Epoch|Iter)\((?P<mode>\w+)\)\s+(?P<step>(?:\[[^]]*\])+).*?eta: (?P<eta>.+?)(?:  |$)'
)
# one stream of text, even with invalid bytes
PIPED = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
INTERVAL = 30.0  # seconds between lines of progress


def run_logged(command: list[str], log: Path, say: Callable[[str], None]) -> str | None:
    """Run a command until it exits, or is terminated because this process ends.

    The command and its complete output are appended to ``log``; ``say`` is called with lines of
    progress. Returns in one line why it failed; None if it did not.
    """
    start = due = time.monotonic()
    message = last = ''
    log.parent.mkdir(parents=True, exist_ok=True)
    with own_file(log).open('a') as file, start_tied(command, **PIPED) as process:
        file.write(f'$ {" ".join(command)}\n')
        try:
            for line in process.stdout:
                file.write(line)
                file.flush()
                last = line.strip() or last
                if last.startswith('error: '):
                    message = last
                progress = progress_in(line)
                if progress and time.monotonic() >= due:
                    due = time.monotonic() + INTERVAL
                    say(f'{progress}, {duration(time.monotonic() - start)} elapsed')
        except BaseException:
            process.terminate()
            raise
    code = process.returncode
    if code < 0:
        return f'ended by {signal.Signals(-code).name}'
    return (message.removeprefix('error: ') or last or f'exit code {code}') if code else None


def progress_in(line: str) -> str | None:
    """The step and the time left in a line of the runner's log."""
    match = PROGRESS.search(line)
    return match and f'{match["mode"]} {match["step"]}, {match["eta"].strip()} left'
