"""Work dirs of runs: their checkpoints and their config."""

import logging
import re
from pathlib import Path

from mmengine.logging import print_log

from mmeffvit.config.beside import dumped_values
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.models.checkpoints.checkpoint import require_run
from mmeffvit.utils.files import read_file
from mmeffvit.utils.text import listed


def saved_checkpoints(work_dir: Path) -> list[Path]:
    """``epoch_N.pth`` and ``iter_N.pth`` in ``work_dir``, latest first."""
    steps = {
        path: int(match[1])
        for path in work_dir.glob('*.pth')
        if (match := re.fullmatch(r'(?:epoch|iter)_(\d+)', path.stem))
    }
    return sorted(steps, key=steps.__getitem__, reverse=True)


def latest_checkpoint(work_dir: Path, *, to_resume: bool = True) -> Checkpoint | None:
    """The latest valid checkpoint in ``work_dir``, or None.

    Later ones are reported with the reason why they are not valid. Without ``to_resume``, weights
    are enough.
    """
    for path in saved_checkpoints(work_dir):
        try:
            checkpoint = open_checkpoint(path)
            if to_resume:
                require_run(checkpoint)
        except CheckpointError as error:
            print_log(f'{error}. Trying the one before.', logger='current', level=logging.WARNING)
        else:
            return checkpoint
    return None


def best_checkpoint(work_dir: Path) -> Checkpoint:
    """The checkpoint with the best metric, else the latest."""
    best = sorted(work_dir.glob('best_*.pth'), key=lambda path: path.stat().st_mtime)
    found = open_checkpoint(best[-1]) if best else latest_checkpoint(work_dir, to_resume=False)
    if found is None:
        raise UserError(f'no checkpoint in {work_dir}')
    return found


def saved_configs(folder: Path) -> list[Path]:
    """The configs that runs have saved in a folder; other Python files are not executed."""
    return [path for path in sorted(folder.glob('*.py')) if is_saved_config(path)]


def is_saved_config(path: Path) -> bool:
    """Whether a file only assigns the values of a whole config, as mmengine's runner writes it."""
    try:
        text = read_file(path).decode(errors='replace')
    except UserError:
        return False
    return 'model' in (dumped_values(text) or {})


def work_dir_in(folder: Path) -> Path | None:
    """The work dir of a run, which has saved its config and a checkpoint in it.

    It is the folder, or ``run/`` in one of `mmeffvit train DATA`.
    """
    places = (folder, folder / 'run')
    return next((each for each in places if any(each.glob('*.pth')) and saved_configs(each)), None)


def config_of(work_dir: Path) -> Path:
    """The config that a run has saved in its work dir."""
    found = saved_configs(work_dir)
    if len(found) > 1:
        raise UserError(
            f'{work_dir} has the configs of several runs: give one of {listed(found)}, and a '
            'CHECKPOINT after it'
        )
    return found[0]
