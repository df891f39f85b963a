"""The newest whole checkpoint of a work dir."""

import logging
import re
from pathlib import Path

from mmengine.logging import print_log

from mmeffvit.checkpoints import CheckpointError
from mmeffvit.checkpoints.read import check_integrity


def latest_checkpoint(work_dir: Path) -> Path | None:
    """Return the newest checkpoint in ``work_dir`` that is whole, or None if there is none.

    A truncated or damaged one is reported and passed over.

    Args:
        work_dir: Where a run saved ``epoch_N.pth`` or ``iter_N.pth``.
    """
    steps = {}
    for path in work_dir.glob('*.pth'):
        match = re.fullmatch(r'(?:epoch|iter)_(\d+)', path.stem)
        if match:
            steps[path] = int(match[1])
    for path in sorted(steps, key=steps.__getitem__, reverse=True):
        try:
            check_integrity(path)
        except CheckpointError as error:
            print_log(f'{error} Trying the one before.', logger='current', level=logging.WARNING)
        else:
            return path
    return None
