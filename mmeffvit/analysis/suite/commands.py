"""The commands of a suite, to run or to print for a cluster."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import RunOptions
from mmeffvit.train.engine.processes import arguments_of
from mmeffvit.utils.files import resource_dir

PRINTED = ('slurm', 'torchrun')
CPUS_PER_GPU = 5  # as in the scripts of mmdet and mmseg


@dataclass(frozen=True)
class SuiteOptions:
    """Options of a suite.

    Args:
        work_dir: Holds one folder per config, and the results table.
        cfg_options: Dotted keys and values that override every config's.
        amp: Train in mixed precision.
        auto_scale_lr: Scale the learning rate with the total batch size of all processes.
        test_only: Test existing checkpoints.
        released: Test the released models of the authors instead of training.
        gpus: Number of processes of a run, one per GPU.
        gpus_per_node: Maximum number of processes on one host.
        partition: Slurm partition.
    """

    work_dir: Path = Path('work_dirs')
    cfg_options: Mapping[str, Any] = field(default_factory=dict)
    amp: bool = False
    auto_scale_lr: bool = False
    test_only: bool = False
    released: bool = False
    gpus: int = 1
    gpus_per_node: int = 8
    partition: str | None = None

    def __post_init__(self) -> None:
        if self.released and (self.test_only or self.amp or self.auto_scale_lr):
            raise UserError(
                '--released tests the models of the authors: remove --test-only, --amp and '
                '--auto-scale-lr'
            )
        if min(self.gpus, self.gpus_per_node) < 1:
            raise UserError(
                f'--gpus is {self.gpus} and --gpus-per-node {self.gpus_per_node}; give 1 or more'
            )
        if self.gpus > self.gpus_per_node and self.gpus % self.gpus_per_node:
            raise UserError(
                f'--gpus {self.gpus} does not fill nodes of --gpus-per-node {self.gpus_per_node}'
            )

    @property
    def num_nodes(self) -> int:
        return max(1, self.gpus // self.gpus_per_node)


def train_command(config_file: Path, options: SuiteOptions, launcher: str) -> list[str]:
    """The command that trains a config, or resumes an interrupted run of it."""
    arguments = [str(config_file), '--resume']
    arguments += ['--amp'] * options.amp + ['--auto-scale-lr'] * options.auto_scale_lr
    return launch('train.py', arguments, options.work_dir / config_file.stem, options, launcher)


def evaluation_command(
    config_file: Path, checkpoint: str | Path, options: SuiteOptions, launcher: str
) -> list[str]:
    """The command that tests a checkpoint of a config."""
    arguments = [str(config_file), str(checkpoint)]
    return launch('test.py', arguments, evaluation_dir(config_file, options), options, launcher)


def evaluation_dir(config_file: Path, options: SuiteOptions) -> Path:
    return options.work_dir / config_file.stem / 'evaluation'


def launch(
    script: str, arguments: list[str], work_dir: Path, options: SuiteOptions, launcher: str
) -> list[str]:
    """The command that runs a script of ``tools/`` on a config, by a launcher."""
    per_node = min(options.gpus, options.gpus_per_node)
    prefix = [sys.executable, '-u']
    if launcher == 'pytorch':
        nodes = ['--standalone']
        if options.num_nodes > 1:
            nodes = [f'--nnodes={options.num_nodes}', '--node_rank=$NODE_RANK']
            nodes += ['--master_addr=$MASTER_ADDR', '--master_port=$MASTER_PORT']
        prefix += ['-m', 'torch.distributed.run', *nodes, f'--nproc_per_node={per_node}']
    elif launcher == 'slurm':
        partition = [f'--partition={options.partition}'] if options.partition else []
        prefix = ['srun', *partition, f'--job-name={Path(arguments[0]).stem}']
        prefix += [f'--gres=gpu:{per_node}', f'--ntasks={options.gpus}']
        prefix += [f'--ntasks-per-node={per_node}', f'--cpus-per-task={CPUS_PER_GPU}']
        prefix += ['--kill-on-bad-exit=1', sys.executable, '-u']
    run = RunOptions(work_dir, options.cfg_options, launcher)  # verbose: its log has everything
    path = str(resource_dir('tools') / script)
    return [*prefix, path, *arguments, *arguments_of(run)]


def printed(config_file: Path, options: SuiteOptions, system: str) -> str:
    """One shell line that trains a config and tests its last checkpoint; see ``PRINTED``."""
    launcher = 'slurm' if system == 'slurm' else 'pytorch'
    last = f'$(cat {shlex.quote(str(options.work_dir / config_file.stem / "last_checkpoint"))})'
    test = list(map(quote, evaluation_command(config_file, 'CHECKPOINT', options, launcher)))
    test[test.index('CHECKPOINT')] = f'"{last}"'
    if options.test_only:
        return ' '.join(test)
    train = map(quote, train_command(config_file, options, launcher))
    return ' '.join([*train, '&&', *test])


def quote(part: str) -> str:
    """Quote for the shell, except for variables."""
    return part if part.startswith(('--node_rank=$', '--master_')) else shlex.quote(part)
