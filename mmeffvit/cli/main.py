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

GROUPS = {  # each command is a module of this folder, with `_` for `-` and a folder for two words
    'Train': {
        'train': 'train a model on a dataset or with a config',
        'test': 'evaluate a checkpoint',
        'distill': 'train a small model on the predictions of a teacher',
        'suite': 'train and test many configs, with one results table',
    },
    'Use': {
        'predict': 'run a model on images and videos',
        'models': 'list models with accuracy, size and speed',
        'download': 'download weights for a machine without a network',
        'demo': 'train on generated shapes in minutes',
        'doctor': 'print versions and which packages work',
    },
    'Deploy': {
        'export': 'export a model to ONNX, OpenVINO and other formats',
        'quantize': 'quantize an exported file to int8',
        'web': 'write a web page that runs a model in the browser',
        'profile': 'measure the speed of every installed runtime',
    },
    'Analyze': {
        'analyze attention': 'draw attention maps',
        'analyze curves': 'plot losses and metrics of runs',
        'analyze errors': 'analyze the errors of a detector',
        'analyze heads': 'measure similarity of attention heads, and accuracy without each',
        'analyze per-class': 'report AP or IoU of every class',
        'complexity': 'count parameters and MACs',
        'prune': 'prune attention heads and hidden units',
    },
    'Data': {
        'check': 'find errors in a config or dataset',
        'browse': 'show augmented training samples',
    },
}
COMMANDS = {name: job for group in GROUPS.values() for name, job in group.items()}

NEEDED = ('torch', 'mmengine', 'onnx')  # by some commands, not for running exported files


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command with its arguments, by default the arguments of this process.

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
    name, rest = split_command(arguments)
    if name not in COMMANDS:
        other = spellings.command_of(name, rest)
        parts = [each for each in COMMANDS if each.startswith(f'{name} ')]
        hint = f'here: `mmeffvit {other}`' if other else did_you_mean(name, COMMANDS)
        hint = f'choose one of {", ".join(parts)}' if parts else hint
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


def split_command(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The name of a command, of one word or two, and what follows it."""
    count = 2 if ' '.join(arguments[:2]) in COMMANDS else 1
    return ' '.join(arguments[:count]), list(arguments[count:])


def import_command(name: str) -> ModuleType:
    return import_module(f'{__package__}.{name.replace("-", "_").replace(" ", ".")}')


def make_parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = []
    for group, commands in GROUPS.items():
        lines += ['', f'{group}:', *(f'  {name:<{width}}  {job}' for name, job in commands.items())]
    parser = ArgumentParser(
        'mmeffvit',
        usage='%(prog)s COMMAND ...',
        description='\n'.join(['Efficient ViT backbones for mmdet and mmseg.', *lines]),
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
    current, _ = split_command(typed[1:])
    groups = {'': parser.add_subparsers()}
    for name in COMMANDS:
        first, _, second = name.rpartition(' ')
        if first not in groups:
            groups[first] = groups[''].add_parser(first).add_subparsers()
        # parsers are made for the command that was typed only: most import torch
        parents = [import_command(name).make_parser()] if name == current else []
        groups[first].add_parser(second, parents=parents, conflict_handler='resolve')
    autocomplete(parser)
