"""Arguments and error handling shared by all commands."""

import argparse
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from mmeffvit.checkpoints.read import allow_non_finite
from mmeffvit.config.load import OptionsAction, is_config
from mmeffvit.data import coco, yolo
from mmeffvit.engine.launcher import LAUNCHERS
from mmeffvit.engine.options import RunOptions
from mmeffvit.errors import UserError
from mmeffvit.utils.files import check_output
from mmeffvit.utils.machine import avoid_trapping_amx
from mmeffvit.zoo.opener import is_model

from .exits import EXIT_CODE, exit_with_message
from .output import shown
from .spellings import check_spelling


class Parser(argparse.ArgumentParser):
    """Has a usage of one line; an invalid call ends in a message that fits on a screen."""

    def format_usage(self) -> str:
        return f'usage: {self.short_usage()}\n'

    def format_help(self) -> str:
        self.usage = self.short_usage()
        return super().format_help()

    def short_usage(self) -> str:
        """The positional arguments and what is required besides; the help lists the options."""
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


def new_parser(description: str, example: str) -> Parser:
    """A parser with ``--debug``.

    Args:
        description: What the command does; its lines are kept.
        example: A call, without the name of the program.
    """
    parser = Parser(
        description=description,
        epilog=f'example:\n  mmeffvit {example}',
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
    """A config file and overrides of its values.

    Args:
        parser: The parser.
        what: What may be given.
        name: The name of anything else than a config alone.
    """
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
    """A checkpoint, and whether non-finite weights are allowed."""
    parser.add_argument(
        'checkpoint',
        nargs='?',
        metavar='CHECKPOINT',
        help='checkpoint file or URL (default: the best one of the run, the saved model, or the '
        'released weights of the config)',
    )
    add_allow_non_finite(parser)


def add_allow_non_finite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--allow-non-finite',
        action='store_true',
        help='also load weights with NaN or infinite values',
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Whether the steps of a job stay on the terminal."""
    parser.add_argument(
        '--verbose', action='store_true', help='print every step; a terminal shows the current one'
    )


def add_alias(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Accept the former name of an option too, without showing it in the help."""
    parser._option_string_actions[old] = parser._option_string_actions[new]


def output_file(text: str) -> Path:
    """The type of an argument for an output file, checked before any work."""
    return _output(text)


def output_folder(text: str) -> Path:
    """The type of an argument for an output folder, checked before any work."""
    return _output(text, folder=True)


def _output(text: str, *, folder: bool = False) -> Path:
    try:
        return check_output(text, folder=folder)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_run(parser: argparse.ArgumentParser, what: str = CONFIG, name: str = 'MODEL') -> None:
    """A config and the options of a run, see :func:`take_run_options`."""
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


def take_run_options(values: dict[str, Any]) -> RunOptions:
    """Remove the values that :func:`add_run` added, and return them as options."""
    values.pop('local_rank')
    names = ('work_dir', 'cfg_options', 'launcher', 'seed', 'deterministic', 'verbose')
    return RunOptions(**{name: values.pop(name) for name in names})


def is_data(target: str) -> bool:
    """Whether a target of the command line is a data set, not a config or a saved model."""
    path = Path(target)
    if path.is_file():  # configs can be YAML and JSON as well
        names = yolo.find(path) and 'names' in (yolo.load(path) or {})
        return bool(names or coco.find(path))
    return path.is_dir() and not is_config(target) and not is_model(target)


# options by the names of their values, where the two differ
SHOWN = {'fraction': 'val-fraction', 'check': 'no-check'}


def reject(values: dict[str, Any], defaults: dict[str, Any], what: str, fix: str) -> None:
    """Reject arguments that would have no effect.

    Raises:
        UserError: If one was given.
    """
    for name, default in defaults.items():
        if values[name] != default:
            shown = SHOWN.get(name, name)
            raise UserError(f'{what}, for which --{shown.replace("_", "-")} does nothing: {fix}')


def run_command(
    make_parser: Callable[[], argparse.ArgumentParser],
    job: Callable[..., int | None],
    argv: Sequence[str] | None = None,
    prog: str | None = None,
) -> None:
    """Parse the command line and run the command; user errors end in one message.

    Args:
        make_parser: Makes the parser of the command.
        job: Called with the parsed values by name; may return an exit code.
        argv: The arguments; by default those of this process.
        prog: The name of the program in its usage; by default that of this process.

    Raises:
        SystemExit: With the exit code, unless it is 0.
    """
    parser = make_parser()
    parser.prog = prog or parser.prog
    check_spelling(parser, sys.argv[1:] if argv is None else argv)
    values = vars(parser.parse_args(argv))
    avoid_trapping_amx()
    non_finite = values.pop('allow_non_finite', False)
    with exit_with_message(values.pop('debug')), allow_non_finite(non_finite), shown():
        code = job(**values)
    if code:
        raise SystemExit(code)
