"""The commands of a suite."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import RunOptions
from mmeffvit.train.engine.processes import tool_command


@dataclass(frozen=True)
class SuiteOptions:
    """Options of a suite; see also :func:`mmeffvit.train.engine.train.train`."""

    work_dir: Path = Path('work_dirs')  # has a folder per config, and the results table
    cfg_options: Mapping[str, Any] = field(default_factory=dict)  # override every config's
    amp: bool = False
    auto_scale_lr: bool = False
    released: bool = False  # test the released models of the authors instead of training
    processes: int = 1  # of a run, one per GPU

    def __post_init__(self) -> None:
        if self.released and (self.amp or self.auto_scale_lr):
            raise UserError(
                '--released tests the models of the authors: remove --amp and --auto-scale-lr'
            )
        if self.processes < 1:
            raise UserError(f'--nproc-per-node is {self.processes}; give 1 or more')


def train_command(config_file: Path, options: SuiteOptions) -> list[str]:
    """The command that trains a config, or resumes an interrupted run of it."""
    arguments = [str(config_file), '--resume']
    arguments += ['--amp'] * options.amp + ['--auto-scale-lr'] * options.auto_scale_lr
    return launch('train.py', arguments, options.work_dir / config_file.stem, options)


def evaluation_command(
    config_file: Path, checkpoint: str | Path, options: SuiteOptions
) -> list[str]:
    """The command that tests a checkpoint of a config."""
    arguments = [str(config_file), str(checkpoint)]
    return launch('test.py', arguments, evaluation_dir(config_file, options), options)


def evaluation_dir(config_file: Path, options: SuiteOptions) -> Path:
    return options.work_dir / config_file.stem / 'evaluation'


def launch(script: str, arguments: list[str], work_dir: Path, options: SuiteOptions) -> list[str]:
    """The command that runs a script of ``tools/`` on a config, in its number of processes."""
    launcher = 'pytorch' if options.processes > 1 else 'none'
    run = RunOptions(work_dir, options.cfg_options, launcher)  # verbose: its log has everything
    return tool_command(script, arguments, run, options.processes)
