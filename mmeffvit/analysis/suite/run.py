"""Train and test many configs one after another, and keep one table of their results."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from glob import glob
from pathlib import Path
from typing import Any

from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import ALL, open_config
from mmeffvit.errors import UserError
from mmeffvit.train.engine.metrics import in_percent
from mmeffvit.train.engine.options import RunOptions
from mmeffvit.train.engine.processes import tool_command
from mmeffvit.utils.files import locked, read_json, resource_dir
from mmeffvit.utils.messages import logger, step
from mmeffvit.utils.text import duration
from mmeffvit.zoo import read_models
from mmeffvit.zoo.metafile import weights_of
from mmeffvit.zoo.runs import latest_checkpoint

from .child import run_logged
from .results import Row, Table, stack_versions


@dataclass(frozen=True)
class SuiteOptions:
    """Options of a suite; see also :class:`mmeffvit.train.engine.options.TrainOptions`."""

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


def run_suite(patterns: Iterable[str], options: SuiteOptions) -> int:
    """Train and test every config in its own processes; a failure does not stop the others.

    ``suite.json`` and ``suite.md`` in ``options.work_dir`` are written after every step. Finished
    configs are skipped; interrupted or failed ones resume from their latest valid checkpoint.
    Returns the exit code: 0 if all configs are done, 1 if some failed.

    Raises:
        UserError: If there is no such config, a config was started with other settings, or another
            suite runs in the same folder.
    """
    config_files = select_configs(patterns, options)
    with locked(options.work_dir, 'a suite'):
        table = Table(options.work_dir)
        enter(config_files, table, options)
        try:
            for number, config_file in enumerate(config_files, 1):
                title = f'[{number}/{len(config_files)}] {config_file.stem}'
                Job(config_file, table, options, title).run()
        except KeyboardInterrupt as error:
            error.__notes__ = [f'{table.markdown} has what is done: run the same command to resume']
            raise
    names = [config_file.stem for config_file in config_files]
    failed = [name for name in names if table.rows[name].status != 'done']
    logger.info(f'{len(names) - len(failed)} of {len(names)} done, see {table.markdown}')
    for name in failed:
        logger.info(f'failed: {name}: {table.rows[name].reason}')
    return 1 if failed else 0


def select_configs(patterns: Iterable[str], options: SuiteOptions) -> list[Path]:
    """Configs that match the patterns; for ``released``, by default all with such weights."""
    patterns = list(patterns)
    if options.released and not patterns:
        return [m.config for m in read_models().values() if m.config and m.weights]
    if not patterns:
        raise UserError('give a CONFIG, or --released')
    config_files = find_configs(patterns)
    for config_file in config_files if options.released else ():
        weights_of(config_file)  # an error if there are none
    return config_files


def find_configs(patterns: Iterable[str]) -> list[Path]:
    """Configs matched by paths, globs or names of our own configs, without duplicates, in order."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        paths = [pattern] if Path(pattern).is_file() else sorted(glob(pattern))
        if not paths and '/' not in pattern:
            name = f'{pattern.removesuffix(".py")}.py'
            paths = [str(path) for path in sorted(resource_dir('configs').glob(name))]
        if not paths:
            raise UserError(f'no config matches {pattern!r}')
        for path in map(Path, paths):
            if path.suffix != '.py' or not path.is_file():
                raise UserError(f'{str(path)!r} is not a config file')
            if found.setdefault(path.stem, path).resolve() != path.resolve():
                raise UserError(f'{found[path.stem]} and {path} would share a work dir: rename one')
    return list(found.values())


def enter(config_files: list[Path], table: Table, options: SuiteOptions) -> None:
    """Give every config its row, with the current published numbers.

    One that was started with other content or options is rejected: the results would mix both.
    """
    given = {name: getattr(options, name) for name in ('cfg_options', 'amp', 'auto_scale_lr')}
    # as in the table: tuples become lists
    started = {'released': True} if options.released else json.loads(json.dumps(given, default=str))
    for config_file in config_files:
        row = table.rows.setdefault(config_file.stem, Row(str(config_file)))
        digest, how = digest_of(config_file), ''
        if row.options not in ({}, started):
            how = f'with {row.options}, not with {started}'
        elif digest and row.digest not in ('', digest):
            how = f'with other settings than {config_file} has now'
        if how:
            raise UserError(
                f'{config_file.stem} was started {how}: choose another --work-dir, or remove '
                f'{options.work_dir / config_file.stem} and its row in {table.json}'
            )
        row.options, row.digest = started, digest or row.digest
        row.config, model = str(config_file), read_models().get(config_file.stem)
        row.source, row.paper = model.published(of_weights=options.released) if model else ('', {})
        row.work_dir = str(options.work_dir / config_file.stem)
    table.save()


def digest_of(config_file: Path) -> str:
    """A hash of all settings of a config; empty if it cannot be read, which its training tells."""
    try:
        text = open_config(config_file, {}, ALL).pretty_text
    except UserError:
        return ''
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Job:
    """Training and testing of one config of a suite; ``title`` is the prefix of its messages."""

    def __init__(self, config_file: Path, table: Table, options: SuiteOptions, title: str) -> None:
        self.config_file, self.table, self.options, self.title = config_file, table, options, title
        self.row = table.rows[config_file.stem]
        self.work_dir = options.work_dir / config_file.stem

    def say(self, text: str) -> None:
        logger.info(f'{self.title}: {text}')

    def enter(self, status: str, reason: str = '') -> None:
        self.row.status, self.row.reason = status, reason
        self.table.save()
        self.say(f'{status}: {reason}' if reason else status)

    def run(self) -> None:
        """Train and test the config, unless it is done."""
        if self.is_done():
            self.say('already done')
            return
        start, row = time.monotonic(), self.row
        # earlier results may be of another checkpoint
        row.ours, row.metrics, row.versions = {}, {}, {}
        row.parameters, row.checkpoint, row.date = None, '', ''
        try:
            if not self.options.released:
                arguments = ['--resume', *['--amp'] * self.options.amp]
                arguments += ['--auto-scale-lr'] * self.options.auto_scale_lr
                self.execute('training', 'train.py', arguments, self.work_dir)
            self.test()
        except UserError as error:
            self.enter('failed', str(error))
        else:
            row.status = 'done'
            self.table.save()
            metrics = ''.join(f'{name} {value} %, ' for name, value in row.ours.items())
            self.say(f'done, {metrics}{duration(time.monotonic() - start)} elapsed')

    def is_done(self) -> bool:
        """Whether there is a result, with ``released`` of the weights that are known today."""
        known = weights_of(self.config_file) if self.options.released else self.row.checkpoint
        return self.row.status == 'done' and self.row.checkpoint == known

    def execute(self, status: str, script: str, arguments: Sequence[str], work_dir: Path) -> None:
        """Run a script as the next step; a failed one raises a ``UserError``."""
        self.enter(status)
        command, log = self.command(script, arguments, work_dir), self.work_dir / 'suite.log'
        reason = run_logged(command, log, lambda text: step(f'{self.title}: {status}, {text}'))
        if reason is not None:
            raise UserError(f'{status}: {reason} (see {log})')

    def command(self, script: str, arguments: Sequence[str], work_dir: Path) -> list[str]:
        """The command that runs a script of ``tools/`` on the config, in its processes."""
        options, arguments = self.options, [str(self.config_file), *arguments]
        launcher = 'pytorch' if options.processes > 1 else 'none'
        run = RunOptions(work_dir, options.cfg_options, launcher)  # verbose: its log has everything
        return tool_command(script, arguments, run, options.processes)

    def test(self) -> None:
        """Test the latest valid checkpoint, or the released weights, and fill in the row."""
        checkpoint: str | Path
        if self.options.released:
            checkpoint = weights_of(self.config_file)
        elif latest := latest_checkpoint(self.work_dir, to_resume=False):
            checkpoint = latest.path
        else:
            raise UserError(f'no valid checkpoint in {self.work_dir}')
        before, folder = time.time(), self.work_dir / 'evaluation'
        self.execute('testing', 'test.py', [str(checkpoint)], folder)
        metrics = measured_since(before, folder)
        row = self.row
        row.metrics, row.ours, row.checkpoint = metrics, in_percent(metrics), str(checkpoint)
        row.date = datetime.now().astimezone().isoformat(timespec='seconds')
        row.versions = stack_versions()
        config = open_config(self.config_file, self.options.cfg_options, ALL)
        with isolated(config.default_scope):
            model = build_model(own_model_config(config))
        row.parameters = sum(parameter.numel() for parameter in model.parameters())


def measured_since(start: float, folder: Path) -> dict[str, Any]:
    """The metrics of a test, from the latest of the runner's files ``<time>/<time>.json``."""
    written = {path: path.stat().st_mtime for path in folder.glob('*/*.json')}
    latest = max(written, key=written.__getitem__, default=None)
    if latest is None or written[latest] < start - 1:  # clocks of file systems are coarse
        raise UserError(f'the test wrote no metrics to {folder}')
    return read_json(latest)
