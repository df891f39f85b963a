"""Train and test many leaf configs one after another, and keep one table of what they reached."""

import json
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from glob import glob
from pathlib import Path
from typing import Any

from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import open_config
from mmeffvit.engine.metrics import in_percent
from mmeffvit.engine.resume import latest_checkpoint
from mmeffvit.errors import UserError
from mmeffvit.utils.files import locked
from mmeffvit.utils.reading import read_json
from mmeffvit.utils.resources import resource_dir
from mmeffvit.zoo import read_models
from mmeffvit.zoo.weights import weights_of

from .child import Outcome, elapsed, run_logged
from .commands import SuiteOptions, evaluation_command, evaluation_dir, printed, train_command
from .results import Row, Table, stack_versions

INTERRUPTED = 130  # the shell's exit code for Ctrl-C


def run_suite(patterns: Iterable[str], options: SuiteOptions) -> int:
    """Train and test every leaf in processes of its own; what fails does not stop the others.

    ``suite.json`` and ``suite.md`` in ``options.work_dir`` are written after every step. A leaf
    that is done is passed over; one that was interrupted or failed goes on from its newest whole
    checkpoint.

    Args:
        patterns: Leaf configs, see :func:`find_leaves`.
        options: See :class:`SuiteOptions`.

    Returns:
        The exit code: 0 if all leaves are done, 1 if some failed, 130 after Ctrl-C.

    Raises:
        UserError: If there is no such leaf, a leaf was begun with other options, or another suite
            works in the same folder.
    """
    leaves = chosen(patterns, options)
    with locked(options.work_dir, 'a suite'):
        table = Table(options.work_dir)
        enter(leaves, table, options)
        try:
            for number, leaf in enumerate(leaves, 1):
                Job(leaf, table, options, f'[{number}/{len(leaves)}] {leaf.stem}').run()
        except KeyboardInterrupt:
            print('interrupted: the same command goes on from here')
            return INTERRUPTED
    failed = [leaf.stem for leaf in leaves if table.rows[leaf.stem].status != 'done']
    print(f'{len(leaves) - len(failed)} of {len(leaves)} done, see {table.markdown}')
    for name in failed:
        print(f'failed: {name}: {table.rows[name].reason}')
    return 1 if failed else 0


def print_commands(patterns: Iterable[str], options: SuiteOptions, system: str) -> int:
    """Print one line of shell per leaf, for a cluster.

    Args:
        patterns: Leaf configs, see :func:`find_leaves`.
        options: See :class:`SuiteOptions`.
        system: 'slurm' or 'torchrun'.

    Returns:
        The exit code 0.

    Raises:
        UserError: If there is no such leaf.
    """
    if options.released:
        raise UserError('--print is for training: --released tests here')
    for leaf in find_leaves(patterns):
        print(printed(leaf, options, system))
    return 0


def chosen(patterns: Iterable[str], options: SuiteOptions) -> list[Path]:
    """The configs that patterns stand for; with ``released``, by default all that have weights.

    Raises:
        UserError: If one stands for nothing, there is none, or no weights are released for one.
    """
    patterns = list(patterns)
    if options.released and not patterns:
        return [m.config for m in read_models().values() if m.config and m.weights]
    if not patterns:
        raise UserError('give a CONFIG, or --released')
    leaves = find_leaves(patterns)
    for leaf in leaves if options.released else ():
        weights_of(leaf)
    return leaves


def find_leaves(patterns: Iterable[str]) -> list[Path]:
    """The configs that paths, globs and names of our own configs stand for, each once, in order.

    Raises:
        UserError: If one stands for nothing, or two files share a name, and so a work dir.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        paths = sorted(glob(pattern))
        if not paths and '/' not in pattern:
            name = f'{pattern.removesuffix(".py")}.py'
            paths = [str(path) for path in sorted(resource_dir('configs').glob(name))]
        if not paths:
            raise UserError(f'no config matches {pattern!r}')
        for path in map(Path, paths):
            if path.suffix != '.py' or not path.is_file():
                raise UserError(f'{str(path)!r} is no config file')
            if found.setdefault(path.stem, path).resolve() != path.resolve():
                raise UserError(f'{found[path.stem]} and {path} would share a work dir: rename one')
    return list(found.values())


def enter(leaves: list[Path], table: Table, options: SuiteOptions) -> None:
    """Give every leaf its row, with today's published numbers.

    Raises:
        UserError: If a leaf was begun with other options: its numbers would be of neither.
    """
    begun = as_json(
        dict(cfg_options=options.cfg_options, amp=options.amp, auto_scale_lr=options.auto_scale_lr)
    )
    for leaf in leaves:
        row = table.rows.setdefault(leaf.stem, Row(str(leaf)))
        if not (options.test_only or options.released):
            if row.options not in ({}, begun):
                raise UserError(
                    f'{leaf.stem} was begun with {row.options}, not with {begun}: choose another '
                    f'--work-dir, or remove {options.work_dir / leaf.stem} and its row in '
                    f'{table.json}'
                )
            row.options = begun
        row.config, model = str(leaf), read_models().get(leaf.stem)
        row.source, row.paper = model.published(of_weights=options.released) if model else ('', {})
        row.work_dir = str(options.work_dir / leaf.stem)
    table.save()


def as_json(value: Any) -> Any:
    """What becomes of a value in a file: tuples turn to lists."""
    return json.loads(json.dumps(value, default=str))


class Job:
    """One leaf of a suite.

    Args:
        leaf: The config file.
        table: Its row is kept up to date there.
        options: See :class:`SuiteOptions`.
        title: What its lines on the screen begin with.
    """

    def __init__(self, leaf: Path, table: Table, options: SuiteOptions, title: str) -> None:
        self.leaf, self.table, self.options, self.title = leaf, table, options, title
        self.row = table.rows[leaf.stem]
        self.work_dir = options.work_dir / leaf.stem
        self.launcher = 'pytorch' if options.gpus > 1 else 'none'

    def say(self, text: str) -> None:
        print(f'{self.title}: {text}', flush=True)

    def enter(self, status: str, reason: str = '') -> None:
        self.row.status, self.row.reason = status, reason
        self.table.save()
        self.say(f'{status} {reason}'.strip())

    def run(self) -> None:
        """Train and test the leaf, unless that is done."""
        if self.is_done():
            self.say('was done before')
            return
        start = time.monotonic()
        self.row.forget_results()  # of another checkpoint, if there are any
        try:
            if not (self.options.test_only or self.options.released):
                self.execute('training', train_command(self.leaf, self.options, self.launcher))
            self.test()
        except UserError as error:
            self.enter('failed', str(error))
        else:
            self.enter('done')
            self.say(f'{self.row.ours}, {elapsed(start)} elapsed')

    def is_done(self) -> bool:
        """Whether there is a result; if only testing is asked for, of the newest checkpoint."""
        if self.options.released:
            return self.row.status == 'done' and self.row.checkpoint == weights_of(self.leaf)
        if self.row.status != 'done' or not self.options.test_only:
            return self.row.status == 'done'
        newest = latest_checkpoint(self.work_dir)
        tested = datetime.fromisoformat(self.row.date).timestamp()
        return newest is not None and (
            str(newest) == self.row.checkpoint and newest.stat().st_mtime <= tested
        )

    def execute(self, status: str, command: list[str]) -> None:
        """Run a command as the next step.

        Raises:
            UserError: If it fails.
        """
        self.enter(status)
        log = self.work_dir / 'suite.log'
        outcome: Outcome = run_logged(command, log, self.relay(status))
        if outcome.code:
            raise UserError(f'{status}: {outcome.reason} (see {log})')

    def relay(self, status: str) -> Callable[[str], None]:
        return lambda progress: self.say(f'{status}, {progress}')

    def test(self) -> None:
        """Test the newest checkpoint, or the released weights, and fill the row.

        Raises:
            UserError: If there is none, or its test fails or measures nothing.
        """
        checkpoint: str | Path | None = latest_checkpoint(self.work_dir)
        if self.options.released:
            checkpoint = weights_of(self.leaf)
        if checkpoint is None:
            raise UserError(f'no whole checkpoint in {self.work_dir}')
        before = time.time()
        self.execute(
            'testing', evaluation_command(self.leaf, checkpoint, self.options, self.launcher)
        )
        metrics = measured_since(before, evaluation_dir(self.leaf, self.options))
        row = self.row
        row.metrics, row.ours, row.checkpoint = metrics, in_percent(metrics), str(checkpoint)
        row.date = datetime.now().astimezone().isoformat(timespec='seconds')
        row.versions = stack_versions()
        row.parameters = count_parameters(self.leaf, self.options)


def measured_since(start: float, folder: Path) -> dict[str, Any]:
    """The metrics that a test wrote, in the runner's file ``<time>/<time>.json``.

    Raises:
        UserError: If there is none.
    """
    files = {path: path.stat().st_mtime for path in folder.glob('*/*.json')}
    fresh = [path for path, written in files.items() if written >= start - 1]  # coarse clocks
    if not fresh:
        raise UserError(f'the test left no metrics in {folder}')
    return read_json(max(fresh, key=files.__getitem__))


def count_parameters(leaf: Path, options: SuiteOptions) -> int:
    config = open_config(leaf, options.cfg_options)
    with isolated(config.default_scope):
        model = build_model(own_model_config(config))
    return sum(parameter.numel() for parameter in model.parameters())
