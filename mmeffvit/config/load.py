"""Read a config, apply the command line, and import mmdet or mmseg."""

import os
from argparse import ArgumentParser, Namespace
from ast import literal_eval
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import Any

from mmengine.config import Config, DictAction

from mmeffvit.errors import UserError
from mmeffvit.registries import CLASSIFICATION
from mmeffvit.utils.files import resource_dir
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import did_you_mean, first_line

from .beside import LiteralConfig
from .found import read_found
from .values import check_values, uses_mmpretrain

DENSE = ('mmdet', 'mmseg')
ALL = (*DENSE, 'mmpretrain')
FOLDER = 'MMEFFVIT_CONFIGS'  # variable of the environment with the folder of our configs
LITERAL = 'literal:'  # before a value that is a Python literal
MAX_LINES = 3  # line numbers of a config in an error message
READERS = ('_file2dict', '_parse_lazy_import')  # mmengine calls one of them for every file


def own_configs() -> dict[str, Path]:
    """Our own configs by name."""
    return {path.stem: path for path in sorted(resource_dir('configs').glob('*.py'))}


def find_config(target: str | Path) -> Path:
    """The file of a config, given by its path or by the name of one of ours.

    Raises:
        UserError: If there is none; the message suggests similar names.
    """
    path = Path(target)
    if path.is_file():
        return path
    own = own_configs()
    if str(target) in own:
        return own[str(target)]
    if path.exists():
        inner = next(iter(sorted(path.glob('*.py'))), 'a .py file')
        raise UserError(f'{str(target)!r} is a folder or a device, not a config: give {inner}')
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    near = get_close_matches(str(path), [str(each) for each in beside], 1, 0.8)
    hint = did_you_mean(path.stem, own) or (f'did you mean {near[0]}?' if near else '')
    what = 'config ' if path.suffix == '.py' else ''
    raise UserError(
        f'{what}{str(target)!r} does not exist; {hint or "`mmeffvit models` lists our configs"}'
    )


def open_config(
    path: str | Path,
    options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
    *,
    named: bool = True,
) -> Config:
    """Read a config as :func:`load_config` does, and import the one of ``scopes`` that it is for.

    Raises:
        UserError: If it cannot be read, is for another package, or the package does not work here.
    """
    config = load_config(path, options, named=named)
    require_scope(config, scopes)
    return config


def load_config(
    path: str | Path, options: Mapping[str, Any] | None = None, *, named: bool = True
) -> Config:
    """Read ``path`` and merge ``options``; a new ``data_root`` replaces the old one in all paths.

    Args:
        path: The config file, or the name of one of ours.
        options: Dotted keys and values, as given by ``--cfg-options``.
        named: Whether the user named it; others are read by :func:`.found.read_found`.

    Raises:
        UserError: If the file cannot be read, or an option or a value is invalid.
    """
    options = deepcopy(dict(options or {}))  # merging removes `_delete_` from its argument
    config = read_program(find_config(path)) if named else read_found(path)
    data_root = options.pop('data_root', None)
    if data_root is not None:
        config = move_data(config, str(data_root))
    try:
        config.merge_from_dict(options)
    except (KeyError, TypeError, AssertionError, AttributeError, IndexError, ValueError) as error:
        raise UserError(f'--cfg-options {options} does not fit {path}: {error}') from error
    check_values(config)
    return config


def read_program(path: Path) -> Config:
    """Execute a config with all its bases."""
    check_cycle(str(path))
    try:
        # mmengine logs every variable of the environment that it substitutes
        with own_folder_in_environment(), quiet():
            return LiteralConfig.of(Config.fromfile(path))
    except (Exception, SystemExit) as error:  # a config can raise anything
        raise UserError(explain(error, path)) from error


@contextmanager
def own_folder_in_environment() -> Iterator[None]:
    """Let ``{{$MMEFFVIT_CONFIGS:configs}}`` in a config be our folder of configs, unless it is set.

    mmengine substitutes variables of the environment, in ``_base_`` too, and knows no other way to
    inherit from an installed package that is not in its own list.
    """
    if FOLDER in os.environ:
        yield
        return
    os.environ[FOLDER] = str(resource_dir('configs'))
    try:
        yield
    finally:
        os.environ.pop(FOLDER, None)


def check_cycle(path: str, inside: tuple[str, ...] = ()) -> None:
    """Reject bases that form a cycle, on which mmengine would recurse endlessly."""
    path = os.path.abspath(path)
    if path in inside:
        cycle = ' -> '.join((*inside[inside.index(path) :], path))
        raise UserError(f'{inside[0]}: its _base_ files form a cycle: {cycle}; remove one')
    try:
        with own_folder_in_environment():
            bases = [base for base in Config._get_base_files(path) if '::' not in base]
    except Exception:  # reported when the file is read
        return
    for base in bases:
        check_cycle(os.path.join(os.path.dirname(path), base), (*inside, path))


def explain(error: BaseException, path: str | Path) -> str:
    """Which config could not be read, the given one or one of its bases, where, and why."""
    # a frame that re-raises the error appears twice
    lines = dict(walk_tb(error.__traceback__))
    read = (str(f.f_locals.get('filename')) for f in lines if f.f_code.co_name in READERS)
    place = next(name for name in reversed([str(path), *read]) if Path(name).is_file())
    inside = [f', line {n}' for f, n in lines.items() if f.f_code.co_filename == place]
    place += ''.join(inside[-MAX_LINES:])
    line = first_line(error)
    is_clear = isinstance(error, ImportError | SyntaxError | TypeError | KeyError)
    return f'{place}: {line}' if is_clear and line else f'{place}: {type(error).__name__}: {line}'


class OptionsAction(DictAction):
    """mmengine's action for KEY=VALUE, with invalid values reported as command-line errors."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        for value in values or ():
            if value.find('=') < 1:
                parser.error(f'{option_string} takes KEY=VALUE, not {value!r}')
        try:
            super().__call__(parser, namespace, values, option_string)
        except (AssertionError, MemoryError, RecursionError, SyntaxError, ValueError) as error:
            parser.error(f'{option_string} {values}: {error}')

    @staticmethod
    def _parse_iterable(val: str) -> Any:
        if val.startswith(LITERAL):  # one of our commands starts another
            return literal_eval(val.removeprefix(LITERAL))
        return DictAction._parse_iterable(val)


def option_text(key: str, value: Any) -> str:
    """``KEY=VALUE`` that ``--cfg-options`` reads as the same value: as a literal if need be."""
    value = str(value) if isinstance(value, os.PathLike) else value
    plain = str(value)
    try:
        is_same = repr(OptionsAction._parse_iterable(plain)) == repr(value)
    except (AssertionError, RecursionError):  # of brackets and of dicts
        is_same = False
    return f'{key}={plain if is_same else LITERAL + repr(value)}'


def move_data(config: Config, data_root: str) -> Config:
    """The config with its ``data_root`` replaced in every value that starts with it."""
    old = config.get('data_root')
    if not isinstance(old, str) or not old.strip('/'):
        raise UserError(
            f'data_root is {old!r} in {config.filename}, so it cannot be replaced by '
            f'{data_root!r}; set the paths of the data loaders themselves'
        )
    old_root, new_root = old.rstrip('/'), data_root.rstrip('/')

    def move(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: move(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(move(item) for item in value)
        # complete folder names only: data_root='data' does not match 'data_time'
        if isinstance(value, str) and (value == old_root or value.startswith(old_root + '/')):
            return new_root + value[len(old_root) :]
        return value

    return LiteralConfig(move(config.to_dict()), filename=config.filename)


def resolve_work_dir(config: Config, work_dir: str | Path | None) -> Path:
    """The work dir of the command line, else of the config, else ``work_dirs/<config name>``."""
    chosen = work_dir or config.get('work_dir') or f'work_dirs/{Path(config.filename).stem}'
    return Path(chosen)


def require_scope(config: Config, scopes: Collection[str] = ALL) -> str:
    """Import the package that a config is for, mmcv's operators, and mmpretrain if used.

    Returns:
        The package, one of ``scopes``.

    Raises:
        UserError: If the config names none of ``scopes``, or a package does not work here.
    """
    scope, model = config.get('default_scope'), config.get('model')
    if scope is None and isinstance(model, dict):  # in the new style, the type may be a class
        scope = getattr(model.get('type'), '__module__', '').partition('.')[0] or None
        config.default_scope = scope
    if scope not in ALL:
        raise UserError(
            f"default_scope is {scope!r} in {config.filename}; write default_scope = 'mmdet', "
            "default_scope = 'mmseg' or default_scope = 'mmpretrain'"
        )
    if scope not in scopes:
        raise UserError(
            f'{config.filename} is for a classifier (default_scope = {scope!r}), and this '
            'is for detectors and segmentors'
        )
    others = ('mmpretrain.models',) if uses_mmpretrain(config.get('model')) else ()
    for module in ('mmcv.ops', f'{scope}.models', *others):
        require(module)
    if scope not in DENSE:
        import_module(CLASSIFICATION)
    return scope
