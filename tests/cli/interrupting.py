"""``python -m tests.cli.interrupting FOLDER``: interrupt real commands at many moments.

In the world of the hostile cases. A line of JSON per command and signal: the exit codes, what was
left after each interruption, and what stands in the folder after a complete repeat.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.hostile.__main__ import import_all
from tests.hostile.cases_signals import forked

COMMANDS = {
    'predict': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'images', 'video.avi', '--out-dir', 'OUT',
        '--out', 'OUT/found.json'),
    'export': (
        'export', 'segmentor.py', 'run_of_segmentor/iter_1.pth', 'OUT/model.param',
        '--backbone-only', '--shape', '64', '64'),
}  # fmt: skip
SIGNALS = (signal.SIGTERM, signal.SIGKILL)  # others are handled as the first
DELAYS = (0.0, 0.2)  # seconds after the first temporary folder is there
LIMIT = 120  # seconds


def wait_for_partial(folder: Path, pid: int) -> bool:
    """Whether a temporary folder appears before the process ends."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if list(folder.glob('.*partial')):
            return True
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        time.sleep(0.002)
    return False


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def interrupt(arguments: list[str], folder: Path, number: int) -> dict[str, object]:
    """Interrupt a command after each delay, and then let it end."""
    folder.mkdir()
    codes, left = [], []
    for delay in DELAYS:
        pid = forked(arguments)(folder.with_suffix('.txt'))
        if wait_for_partial(folder, pid):
            time.sleep(delay)
        os.kill(pid, number)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        left.append(names(folder))
    pid = forked(arguments)(folder.with_suffix('.txt'))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return dict(codes=codes, left=left, code=code, repeated=names(folder))


def main() -> None:
    root = Path(sys.argv[1])
    import_all()
    for name, arguments in COMMANDS.items():
        for number in SIGNALS:
            folder = root / f'{name}_{number}'
            given = [each.replace('OUT', str(folder)) for each in arguments]
            print(json.dumps([name, number, interrupt(given, folder, number)]), flush=True)
            shutil.rmtree(folder)


if __name__ == '__main__':
    main()
