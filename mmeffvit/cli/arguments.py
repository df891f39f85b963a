"""What the commands share: arguments, and how a command ends."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from mmeffvit.config.load import OptionsAction
from mmeffvit.engine.launch import LAUNCHERS, RunOptions

from .errors import exit_with_message


def new_parser(description: str) -> argparse.ArgumentParser:
    """A parser with ``--debug``; a description of several paragraphs keeps its lines."""
    kind = argparse.RawDescriptionHelpFormatter if '\n' in description else argparse.HelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=kind)
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')
    return parser


def add_config(parser: argparse.ArgumentParser) -> None:
    """A config file and what replaces its values."""
    parser.add_argument('config', help='a config of mmdet or mmseg, or the name of one of ours')
    add_cfg_options(parser)


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'checkpoint',
        nargs='?',
        help='a checkpoint of a run with this config, or a released model, by its file or '
        'address; left out, the model that is released for the config',
    )


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=OptionsAction,
        default={},
        metavar='KEY=VALUE',
        help='replace values of the config; data_root=FOLDER moves every data path',
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """A config, and how a run of it starts: see :func:`take_run_options`."""
    add_config(parser)
    parser.add_argument('--work-dir', help='folder of the log and the checkpoints')
    parser.add_argument('--seed', type=int, help='seed of everything random')
    parser.add_argument(
        '--deterministic', action='store_true', help='deterministic algorithms only'
    )
    parser.add_argument('--launcher', choices=LAUNCHERS, default='none')
    # torch.distributed.launch passes this; torchrun does not
    parser.add_argument('--local-rank', '--local_rank', type=int, help=argparse.SUPPRESS)


def take_run_options(values: dict[str, Any]) -> RunOptions:
    """Take out of parsed values those that :func:`add_run` added beside the config."""
    values.pop('local_rank')
    names = ('work_dir', 'cfg_options', 'launcher', 'seed', 'deterministic')
    return RunOptions(**{name: values.pop(name) for name in names})


def run_command(
    make_parser: Callable[[], argparse.ArgumentParser],
    job: Callable[..., int | None],
    argv: Sequence[str] | None = None,
) -> None:
    """Parse a command line and do its job; a user error ends in one message.

    Args:
        make_parser: Makes the parser of the command.
        job: Gets the parsed values by name, and gives the exit code if there is a choice.
        argv: The arguments; None takes those of this process.

    Raises:
        SystemExit: With the exit code, unless it is 0.
    """
    values = vars(make_parser().parse_args(argv))
    with exit_with_message(values.pop('debug')):
        code = job(**values)
    if code:
        raise SystemExit(code)
