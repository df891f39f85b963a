"""Arguments and error handling shared by all commands."""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from mmeffvit.config.load import OptionsAction
from mmeffvit.data.detect import FORMATS, Found, detect
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import allow_non_finite
from mmeffvit.train.engine.launcher import LAUNCHERS
from mmeffvit.utils.files import check_output
from mmeffvit.utils.image_formats import limit_decoders
from mmeffvit.utils.interrupts import exit_at_once, handled
from mmeffvit.utils.machine import avoid_trapping_amx, keep_freed_memory
from mmeffvit.zoo.source import Kind, classify

from .output import EXIT_CODE, exit_with_message, shown
from .spellings import check_spelling

CONFIGS = ('.json', '.yaml', '.yml')  # suffixes of annotations that configs have, too
ANNOTATIONS = (*CONFIGS, '.xml', '.csv', '.tsv', '.data')


class Parser(argparse.ArgumentParser):
    """A parser with a usage of one line; an invalid call ends in a short message."""

    def format_usage(self) -> str:
        return f'usage: {self.short_usage()}\n'

    def format_help(self) -> str:
        self.usage = self.short_usage()
        return super().format_help()

    def short_usage(self) -> str:
        """The positional arguments and the required options; the help lists all options."""
        words = []
        for action in self._actions:
            name = str(action.metavar or action.dest)
            if action.option_strings:
                words += [f'{action.option_strings[-1]} {name}'] if action.required else []
            else:
                shown = name if name.startswith('[') else name.upper()
                form = {'?': f'[{shown}]', '*': f'[{shown} ...]', '+': f'{shown} ...'}
                words.append(form.get(action.nargs, shown))
        return ' '.join([self.prog, *words, '[options]']).replace('%', '%%')

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:
        values, unknown = self.parse_known_args(args, namespace)
        if unknown:  # it finds no argument that may be left out after an option
            values, unknown = self.parse_known_intermixed_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition('=')[0], self._option_string_actions, 1)
            hint = f'; did you mean {near[0]}?' if near else ''
            self.error(f'unrecognized arguments: {" ".join(unknown)}{hint}')
        return values

    def error(self, message: str) -> NoReturn:
        self.exit(
            EXIT_CODE,
            f'{self.format_usage()}(`{self.prog} --help` lists the options)\nerror: {message}\n',
        )


def new_parser(description: str, example: str, program: str = 'mmeffvit ') -> Parser:
    """A parser with ``--debug``; the ``example`` is a call without the name of the program."""
    parser = Parser(
        description=description,
        epilog=f'example:\n  {program}{example}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')
    return parser


CONFIG = 'config file of mmdet or mmseg, or the name of one of ours'
MODEL = (
    f'{CONFIG}; or, with weights: work dir of a run, checkpoint of a run, or saved model (folder '
    'or hf://OWNER/NAME)'
)


def add_config(parser: argparse.ArgumentParser, what: str = CONFIG, name: str = 'MODEL') -> None:
    """Add a config file, or ``what`` under its ``name``, and overrides of its values."""
    parser.add_argument('config', metavar='CONFIG' if what == CONFIG else name, help=what)
    add_cfg_options(parser)


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=OptionsAction,
        default={},
        metavar='KEY=VALUE',
        help='override settings of the config; data_root=FOLDER changes every data path',
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add a checkpoint, and whether non-finite weights are allowed."""
    parser.add_argument(
        'checkpoint',
        nargs='?',
        metavar='CHECKPOINT',
        help='checkpoint file or URL (default: the best one of the run, the saved model, or the '
        'released weights of the config)',
    )
    add_allow_non_finite(parser)


def add_allow_non_finite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--allow-non-finite', action='store_true',
                        help='also load weights with NaN or infinite values')  # fmt: skip


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add an option that keeps the steps of a job on the terminal."""
    parser.add_argument(
        '--verbose', action='store_true', help='print every step; a terminal shows the current one'
    )


def output_file(text: str, *, folder: bool = False) -> Path:
    """The type of an argument for an output file or folder, checked before any work."""
    try:
        return check_output(text, folder=folder)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


output_folder = partial(output_file, folder=True)


def add_out_dir(
    parser: argparse.ArgumentParser, default: str, what: str = 'output folder', dest: str = 'out'
) -> None:
    """Add an output folder."""
    parser.add_argument('--out-dir', dest=dest, type=output_folder, default=default,
                        metavar='FOLDER', help=f'{what} (default: %(default)s)')  # fmt: skip


class AsTuple(argparse.Action):
    """Store several values as a tuple."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, tuple(values))


def add_shape(parser: argparse.ArgumentParser, what: str, dest: str = 'shape') -> None:
    """Add the size of images, (height, width) in pixels."""
    parser.add_argument('--shape', dest=dest, nargs=2, type=int, action=AsTuple,
                        metavar=('HEIGHT', 'WIDTH'), help=what)  # fmt: skip


def add_layers(parser: argparse.ArgumentParser) -> None:
    """Add a selection of layers."""
    parser.add_argument(
        '--layers',
        nargs='+',
        default=(),
        metavar='NAME',
        help="names of layers or of modules that contain them; '*' is a wildcard (default: all)",
    )


def add_run(parser: argparse.ArgumentParser, what: str = CONFIG, name: str = 'MODEL') -> None:
    """Add a config and :class:`mmeffvit.train.engine.options.RunOptions`."""
    add_config(parser, what, name)
    parser.add_argument(
        '--work-dir', type=output_folder, metavar='FOLDER', help='folder for logs and checkpoints'
    )
    parser.add_argument('--seed', type=int, help='random seed')
    parser.add_argument('--deterministic', action='store_true', help='use deterministic algorithms')
    parser.add_argument(
        '--verbose', action='store_true', help="also print mmengine's log to the console"
    )
    parser.add_argument('--launcher', choices=LAUNCHERS, default='none', help='job launcher')
    # torch.distributed.launch passes this; torchrun does not
    parser.add_argument('--local-rank', '--local_rank', type=int, help=argparse.SUPPRESS)


def add_reading(parser: Any) -> None:
    """How a dataset is read."""
    add = parser.add_argument
    add('--format', choices=FORMATS, help='format of the dataset (default: detected)')
    add('--skip-broken', action='store_true', help='skip images with errors')
    add('--strict', action='store_true', help='treat warnings as errors')
    # fmt: off
    add('--crowds-are-objects', action='store_true',
        help='read crowd regions and difficult objects as any other, not as ignored regions')
    add('--keep-partly-broken', action='store_true',
        help='with --skip-broken, keep images that also have valid objects')
    add('--val-fraction', dest='fraction', type=float, metavar='FRACTION',
        help='fraction of images for validation if the dataset has no such split (default: 0.2)')
    # fmt: on


def add_folders(parser: Any) -> None:
    """Folders that cannot be guessed."""
    add = parser.add_argument
    add('--images', type=Path, metavar='DIR', help='folder of images in DATA; needs --masks')
    add('--masks', type=Path, metavar='DIR', help='folder of their label maps in DATA')


def take(values: dict[str, Any], options: type) -> dict[str, Any]:
    """Remove the values that are fields of a dataclass, and return those that are not None."""
    names = [field.name for field in fields(options) if field.name in values]
    taken = {name: values.pop(name) for name in names}
    return {name: value for name, value in taken.items() if value is not None}


def find_data(target: str, values: dict[str, Any]) -> tuple[bool, Found | None]:
    """Whether a target is a dataset, not a config or a saved model, and what was detected.

    Nothing is if its folders are among the ``values`` of the command line.
    """
    path, format = Path(target), values['format']
    if path.is_dir():
        if values['images'] is not None:
            return True, None
        is_model = classify(target) in (Kind.CONFIG, Kind.RUN, Kind.SAVED)
        return not is_model, None if is_model else detect(path, format)
    suffix = path.suffix.lower()
    if suffix not in ANNOTATIONS or not path.is_file():
        return False, None
    try:
        return True, detect(path, format)
    except UserError:
        if suffix not in CONFIGS:
            raise
        return False, None


OF_DATA, OF_CONFIG = 'options for datasets', 'options for configs'


def names_in(parser: argparse.ArgumentParser, title: str) -> tuple[str, ...]:
    """The names of the options in a group of a parser."""
    groups = (group for group in parser._action_groups if group.title == title)
    return tuple(action.dest for group in groups for action in group._group_actions)


def check_seed(seed: int | None) -> None:
    """Reject what numpy's generators do not take; loaders add the numbers of their workers."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UserError(f'--seed is {seed}; give 0 to {2**31 - 1:,}')


def reject(
    parser: argparse.ArgumentParser,
    values: dict[str, Any],
    names: Sequence[str],
    what: str,
    fix: str,
) -> None:
    """Reject the named options that were given, as they would have no effect."""
    for action in parser._actions:
        if action.dest in names and values[action.dest] != action.default:
            raise UserError(f'{what}, for which {action.option_strings[0]} does nothing: {fix}')


def run_command(command: ModuleType, argv: Sequence[str], prog: str) -> None:
    """Parse the arguments of a command and run it; user errors end in one message.

    Its ``run`` is called with the parsed values by name, and may return an exit code.
    """
    if isinstance(sys.stdout, TextIOWrapper):  # a file name need not be text
        sys.stdout.reconfigure(errors='backslashreplace')
    parser = command.make_parser()
    parser.prog = prog
    for each in argv:
        if not each or (each.startswith('--') and each.endswith('=')):
            parser.error(f'{each or "an argument"} is empty, perhaps of a variable that is not set')
    check_spelling(parser, argv)
    values = vars(parser.parse_args(argv))
    avoid_trapping_amx()
    keep_freed_memory()
    non_finite, debug = values.pop('allow_non_finite', False), values.pop('debug')
    # a log on a full disk would print every record with a traceback; the command has its message
    logging.raiseExceptions = debug
    with exit_with_message(debug), allow_non_finite(non_finite), shown():
        code = command.run(**values)
    if code:
        raise SystemExit(code)


def run_tool(tool: ModuleType) -> None:
    """Run a script of ``tools/`` as a command, see :func:`run_command`."""
    with handled(exit_at_once):
        limit_decoders()
        run_command(tool, sys.argv[1:], Path(tool.__file__ or '').name)
