"""The commands of a suite: run here, or printed for a cluster."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.resources import resource_dir

PRINTED = ('slurm', 'torchrun')
CPUS_PER_GPU = 5  # as in the hosts' own scripts


@dataclass(frozen=True)
class SuiteOptions:
    """How a suite runs.

    Args:
        work_dir: Gets one folder per leaf, and the results table.
        cfg_options: Dotted keys and values that replace those of every config.
        amp: Train in mixed precision.
        auto_scale_lr: Scale the learning rate by the batch over all processes.
        test_only: Test the checkpoints that are there.
        released: Test the models that the authors released, and train none.
        gpus: Processes of a run.
        gpus_per_node: Processes on one machine at most.
        partition: Of slurm.
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
                '--released tests what the authors trained: leave out --test-only, --amp and '
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


def train_command(leaf: Path, options: SuiteOptions, launcher: str) -> list[str]:
    """Train a leaf, or go on where a run of it stopped.

    Args:
        leaf: The config file.
        options: See :class:`SuiteOptions`.
        launcher: 'none', 'pytorch' or 'slurm'.
    """
    arguments = [str(resource_dir('tools') / 'train.py'), str(leaf), '--resume']
    arguments += ['--work-dir', str(options.work_dir / leaf.stem)]
    arguments += ['--amp'] * options.amp + ['--auto-scale-lr'] * options.auto_scale_lr
    return launch(arguments, leaf, options, launcher)


def evaluation_command(
    leaf: Path, checkpoint: str | Path, options: SuiteOptions, launcher: str
) -> list[str]:
    """Test a checkpoint of a leaf; see :func:`train_command`."""
    arguments = [str(resource_dir('tools') / 'test.py'), str(leaf), str(checkpoint)]
    arguments += ['--work-dir', str(evaluation_dir(leaf, options))]
    return launch(arguments, leaf, options, launcher)


def evaluation_dir(leaf: Path, options: SuiteOptions) -> Path:
    return options.work_dir / leaf.stem / 'evaluation'


def launch(arguments: list[str], leaf: Path, options: SuiteOptions, launcher: str) -> list[str]:
    """Put in front of a tool what starts its processes, and after it what all commands share."""
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
        prefix = ['srun', *partition, f'--job-name={leaf.stem}', f'--gres=gpu:{per_node}']
        prefix += [f'--ntasks={options.gpus}', f'--ntasks-per-node={per_node}']
        prefix += [f'--cpus-per-task={CPUS_PER_GPU}', '--kill-on-bad-exit=1']
        prefix += [sys.executable, '-u']
    suffix = [] if launcher == 'none' else ['--launcher', launcher]
    if options.cfg_options:
        suffix += ['--cfg-options', *map('='.join, as_text(options.cfg_options).items())]
    return [*prefix, *arguments, *suffix]


def as_text(cfg_options: Mapping[str, Any]) -> dict[str, str]:
    """The values as ``--cfg-options`` takes them: it reads back what is given here."""

    def text(value: Any) -> str:
        if isinstance(value, list | tuple):
            inside = ','.join(map(text, value))
            return f'[{inside}]' if isinstance(value, list) else f'({inside})'
        return str(value)

    return {key: text(value) for key, value in cfg_options.items()}


def printed(leaf: Path, options: SuiteOptions, system: str) -> str:
    """One line of shell that trains a leaf and tests what it ended with.

    Args:
        leaf: The config file.
        options: See :class:`SuiteOptions`.
        system: 'slurm' or 'torchrun'.
    """
    launcher = 'slurm' if system == 'slurm' else 'pytorch'
    last = f'$(cat {shlex.quote(str(options.work_dir / leaf.stem / "last_checkpoint"))})'
    test = [quote(part) for part in evaluation_command(leaf, 'CHECKPOINT', options, launcher)]
    test[test.index('CHECKPOINT')] = f'"{last}"'
    lines = [' '.join(test)]
    if not options.test_only:
        lines.insert(0, ' '.join(map(quote, train_command(leaf, options, launcher))))
    return ' && '.join(lines)


def quote(part: str) -> str:
    """Quote for the shell, but leave variables that it must fill in."""
    return part if part.startswith(('--node_rank=$', '--master_')) else shlex.quote(part)
