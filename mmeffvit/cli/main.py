# PYTHON_ARGCOMPLETE_OK
"""``mmeffvit COMMAND``: every tool as a command, imported when it is called."""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from mmeffvit.version import __version__

from .errors import EXIT_CODE

COMMANDS = {  # the module in this folder, and what it does
    'train': ('train', 'train a model'),
    'test': ('test', 'evaluate a checkpoint'),
    'predict': ('predict', 'run a checkpoint on images and videos'),
    'export': ('export', 'write a file for another runtime'),
    'quantize': ('quantize', 'make an int8 file of an exported one'),
    'web': ('web', 'write a page that runs an exported file in the browser'),
    'profile': ('profile', 'measure every runtime here, and name the best'),
    'browse': ('browse', 'draw what training is fed'),
    'check': ('check', 'find faults of a config and of its data'),
    'complexity': ('complexity', 'count parameters and multiply-adds'),
    'convert': ('convert', 'rewrite released weights under our keys'),
    'prune': ('prune', 'remove attention heads'),
    'attention': ('attention', 'draw attention maps'),
    'curves': ('plot_curves', 'draw losses and metrics of runs'),
    'analyze-heads': ('analyze_heads', 'similarity of attention heads, and accuracy without each'),
    'errors': ('analyze_errors', "COCO's error analysis of a results file"),
    'per-class': ('per_class', 'AP or IoU of every class'),
    'suite': ('suite', 'train and test many configs, with one table'),
    'convert-dataset': ('convert_dataset', "write a data set's index in COCO's form"),
    'prepare-voc-coco': ('prepare_voc_coco', "label COCO with Pascal VOC's classes"),
    'demo': ('demo', 'train on generated shapes in minutes, and show the result'),
    'doctor': ('doctor', 'versions, what works here, and cures'),
}

NEEDED = ('torch', 'mmengine')  # not for running exported files


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        argv: The command and its arguments; None takes those of this process.

    Raises:
        SystemExit: With the exit code, unless it is 0.
    """
    complete()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = make_parser()
    if not arguments or arguments[0].startswith('-'):
        parser.parse_args(arguments)
        parser.print_help(sys.stderr)
        raise SystemExit(EXIT_CODE)
    name, *rest = arguments
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, 1)
        hint = f'did you mean {close[0]!r}?' if close else f'choose one of {", ".join(COMMANDS)}'
        parser.error(f'there is no command {name!r}; {hint}')
    try:
        command = import_command(name)
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:  # a bug
            raise
        parser.error(
            f'`mmeffvit {name}` needs {error.name}, which is not installed: '
            "`pip install 'mmeffvit[det,seg]'`"
        )
    command.main(rest, prog=f'mmeffvit {name}')


def import_command(name: str) -> ModuleType:
    return import_module(f'{__package__}.{COMMANDS[name][0]}')


def make_parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [f'  {name:<{width}}  {job}' for name, (_, job) in COMMANDS.items()]
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
