# PYTHON_ARGCOMPLETE_OK
"""``mmeffvit COMMAND``: every command is imported when it is called."""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from mmeffvit.utils.interrupts import exit_at_once, handled
from mmeffvit.utils.optional import install_command
from mmeffvit.utils.text import did_you_mean
from mmeffvit.version import __version__

from . import spellings
from .output import EXIT_CODE

COMMANDS = {  # each is a module of this folder, with `_` for `-`
    'train': 'train a model on a dataset or with a config',
    'test': 'evaluate a checkpoint',
    'distill': 'train a small model on the predictions of a teacher',
    'predict': 'run a model on images and videos',
    'export': 'export a model to ONNX, OpenVINO and other formats',
    'quantize': 'quantize an exported file to int8',
    'web': 'write a web page that runs a model in the browser',
    'profile': 'measure the speed of every installed runtime',
    'browse': 'show augmented training samples',
    'check': 'find errors in a config or dataset',
    'complexity': 'count parameters and MACs',
    'convert': 'convert released weights to our keys',
    'prune': 'prune attention heads and hidden units',
    'attention': 'draw attention maps',
    'curves': 'plot losses and metrics of runs',
    'analyze-heads': 'measure similarity of attention heads, and accuracy without each',
    'errors': 'analyze the errors of a detector',
    'per-class': 'report AP or IoU of every class',
    'suite': 'train and test many configs, with one results table',
    'convert-dataset': 'convert a dataset to COCO format or to label maps',
    'models': 'list models with accuracy, size and speed',
    'download': 'download weights for a machine without a network',
    'demo': 'train on generated shapes in minutes',
    'doctor': 'print versions and which packages work',
}

NEEDED = ('torch', 'mmengine', 'onnx')  # by some commands, not for running exported files


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command with its arguments, by default those of this process.

    Raises:
        SystemExit: With the exit code, unless it is 0.
    """
    with handled(exit_at_once):
        dispatch(list(sys.argv[1:] if argv is None else argv))


def dispatch(arguments: list[str]) -> None:
    """Import and run the command that the arguments name."""
    complete()
    parser = make_parser()
    if not arguments or arguments[0].startswith('-'):
        parser.parse_args(arguments)
        parser.print_help(sys.stderr)
        raise SystemExit(EXIT_CODE)
    name, *rest = arguments
    if name not in COMMANDS:
        other = spellings.command_of(name, rest)
        hint = f'here: `mmeffvit {other}`' if other else did_you_mean(name, COMMANDS)
        hint = hint or f'choose one of {", ".join(COMMANDS)}'
        parser.error(f'there is no command {name!r}; {hint}')
    try:
        from mmeffvit.utils.image_formats import limit_decoders

        limit_decoders()
        command = import_command(name)
        from .arguments import run_command  # imports torch
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:  # a bug
            raise
        parser.error(
            f'`mmeffvit {name}` needs {error.name}, which is not installed: '
            f'`{install_command(error.name)}`'
        )
    run_command(command, rest, f'mmeffvit {name}')


def import_command(name: str) -> ModuleType:
    return import_module(f'{__package__}.{name.replace("-", "_")}')


def make_parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [f'  {name:<{width}}  {job}' for name, job in COMMANDS.items()]
    parser = ArgumentParser(
        'mmeffvit',
        usage='%(prog)s COMMAND ...',
        description='\n'.join(['Efficient ViT backbones for mmdet and mmseg.', '', *lines]),
        epilog='`mmeffvit COMMAND --help` describes its options.',
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'mmeffvit {__version__}')
    return parser


def complete() -> None:
    """Answer the shell that asks for completions, if argcomplete is installed."""
    if '_ARGCOMPLETE' not in os.environ:
        return
    try:
        from argcomplete import autocomplete
    except ImportError:
        return
    parser = make_parser()
    typed = os.environ.get('COMP_LINE', '').split()
    commands = parser.add_subparsers()
    for name in COMMANDS:
        # parsers are made for the command that was typed only: most import torch
        parents = [import_command(name).make_parser()] if name in typed[1:2] else []
        commands.add_parser(name, parents=parents, conflict_handler='resolve')
    autocomplete(parser)
