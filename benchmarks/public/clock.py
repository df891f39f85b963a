"""A command with the CPU time of all its processes, and when each validation became known."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file

SECONDS = 1.0  # between two looks


class Clock:
    """CPU minutes of the commands of a run, over several sittings.

    Args:
        path: Its file; minutes and curve continue from it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        content = json.loads(path.read_text()) if path.is_file() else {}
        self.minutes: float = content.get('minutes', 0.0)
        self.curve: list[tuple[float, float]] = content.get('curve', [])

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        curve: Callable[[], Sequence[float]] = lambda: (),
    ) -> None:
        """Run a command to its end, and add its minutes and its validations.

        Raises:
            UserError: If it fails, with the last line of its output.
        """
        before = self.minutes
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open('ab') as output:
            process = psutil.Popen(
                command, env=dict(environment), stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                while not has_ended(process.pid):
                    self.minutes = before + max(cpu_seconds(process) / 60, self.minutes - before)
                    self.look(curve())
                    time.sleep(SECONDS)
            except BaseException:
                process.terminate()
                raise
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.minutes = before + (used.ru_utime + used.ru_stime) / 60
        self.look(curve())
        self.save()
        if process.returncode:
            lines = log.read_text(errors='replace').splitlines()[-2:]
            raise UserError(f'{" ".join(command)} failed ({log}): {" ".join(lines)[-300:]}')

    def look(self, values: Sequence[float]) -> None:
        """Stamp the validations that are new."""
        if len(values) > len(self.curve):
            self.curve += [(round(self.minutes, 3), v) for v in values[len(self.curve) :]]
            self.save()

    def save(self) -> None:
        write_file(self.path, json.dumps(dict(minutes=self.minutes, curve=self.curve)))


def has_ended(pid: int) -> bool:
    """Whether a child has ended; it is left for ``wait4``, which knows its CPU time."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process, of its ended children, and of those that still run."""
    total = 0.0
    try:
        for each in [process, *process.children(recursive=True)]:
            used = each.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    except psutil.Error:  # one of them has just ended
        pass
    return total
