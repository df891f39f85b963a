"""Progress on the console: a live line on a terminal; of a run, a line per epoch with metrics."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.status import Status

from mmeffvit.models.checkpoints.pretrained import checkpoint_of
from mmeffvit.train.engine.launcher import unwrap
from mmeffvit.train.engine.metrics import LOW, in_percent, percent_text
from mmeffvit.utils.interrupts import is_first_process
from mmeffvit.utils.messages import output
from mmeffvit.utils.quiet import replaced
from mmeffvit.utils.text import counted, duration

MEASURED = 20  # steps before the time of the run is estimated
RATED = 100  # steps before the share of data loading is shown
WAITING = 0.2  # of a step, from which more processes are suggested
REFRESH = 0.5  # seconds between updates of the live line
WINDOW = 20  # steps that the shown loss is averaged over
NO_METRICS = 'no metrics: nothing was detected'  # COCO's metric has no values then
RANDOM = 'random weights'
MAX_LINES = 20  # lines of a run that counts iterations and does not validate


@contextmanager
def run_console(verbose: bool) -> Iterator[list['RunConsole']]:
    """The hooks that show a run; none if mmengine's log is shown, or in other ranks than 0."""
    console = RunConsole()
    try:
        yield [console] if is_first_process() and not verbose else []
    finally:
        console.hide()


@contextmanager
def working(description: str, *, verbose: bool = False) -> Iterator[None]:
    """Show the current step of a job and its time in one live line, if there is a terminal.

    Elsewhere, and with ``verbose``, every step is printed. The first one is the ``description``.
    """
    console = Console(file=sys.stderr)
    if verbose or not console.is_terminal:
        yield
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn('{task.description}', markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # a pipe receives what is printed
    )
    task = bar.add_task(description)
    with bar, replaced(output, 'live', lambda text: bar.update(task, description=text)):
        yield


def summary(metrics: Mapping[str, float], name: str) -> str:
    """One line with the metrics that papers report, or with all if there are none of these."""
    if not metrics:
        return f'{name}: {NO_METRICS}'
    others = ', '.join(f'{key} {value:.4g}' for key, value in metrics.items())
    return f'{name}: {percent_text(metrics) or others}'


def describe_run(runner: Runner) -> str:
    """One line: the model, its data, and what it starts from."""
    model = unwrap(runner.model)
    backbone = getattr(model, 'backbone', None)
    name = type(model).__name__ + (f' with {type(backbone).__name__}' if backbone else '')
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    data = counted(len(runner.train_dataloader.dataset), 'training image')
    if runner.val_loop is not None:
        data += f', {counted(len(runner.val_dataloader.dataset), "validation image")}'
    how = 'resumed' if runner._resume else 'from'
    start = start_of(runner) or RANDOM
    return f'{name}, {millions:.1f} M parameters; {data}; {how} {start}'


def start_of(runner: Runner) -> str:
    """The weights that a run starts from; empty for random ones."""
    backbone = (runner.cfg.get('model') or {}).get('backbone') or {}
    weights = checkpoint_of(backbone.get('init_cfg'))
    return runner._load_from or (f'{weights} (backbone)' if weights else '')


def describe_loading(share: float, workers: int) -> str:
    """One line: the share of a step that waits for data, and what helps if it is large."""
    hint = f': try --workers {max(2, 2 * workers)}' if share >= WAITING else ''
    return f'loading takes {share:.0%} of a step{hint}'


class RunConsole(Hook):
    """Print a line per epoch, or per validation where a run counts iterations.

    A terminal has a live line below, with the loss, images per second and the time left. The lines
    go to ``stream``, by default the current standard output.
    """

    priority = 'LOWEST'  # after the metrics and the losses have been recorded

    def __init__(self, stream: TextIO | None = None) -> None:
        self.console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
        self.live: Status | None = None
        self.row = ''
        self.best: dict[str, float] = {}
        self.was_empty = False  # no validation has found anything

    def before_train(self, runner: Runner) -> None:
        self.by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        self.first, self.row_images = runner.iter, 0
        self.restart()  # a resumed run may begin with a validation
        self.shown = self.started
        scalars = runner.message_hub.log_scalars if runner.iter else {}  # of a resumed run
        highest = {k.removeprefix('val/'): v.max() for k, v in scalars.items() if k[:4] == 'val/'}
        self.best, self.was_empty = in_percent(highest), False
        self.print(describe_run(runner))
        self.print(f'log: {runner.log_dir}')
        # mmengine loads the images of these steps once more
        skips = counted(runner.iter, 'step') if runner.iter and not self.by_epoch else ''
        self.show(f'skipping the images of {skips}' if skips else 'starting')

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Mapping[str, Any] | None = None
    ) -> None:
        if runner.iter == self.first:
            self.restart()

    def restart(self) -> None:
        """Count the time of the steps from now on."""
        self.started = self.row_started = time.monotonic()
        self.validated = 0.0  # seconds

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Any = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        size = len(data_batch['inputs']) if isinstance(data_batch, Mapping) else 0
        self.row_images += size * get_world_size()
        done = runner.iter + 1 - self.first  # the loop counts this step after its hooks
        if done == MEASURED and runner.max_iters > self.first + MEASURED:
            self.print(f'about {self.time_left(runner, done)} to go, without validation')
        scalars = runner.message_hub.log_scalars
        if done == RATED and 'train/data_time' in scalars:
            waited, total = (scalars[f'train/{k}'].mean(RATED // 2) for k in ('data_time', 'time'))
            self.print(describe_loading(waited / total, runner.train_dataloader.num_workers))
        now = time.monotonic()
        if now - self.shown >= REFRESH:
            self.shown = now
            self.show(f'{self.describe(runner, done)}, {self.time_left(runner, done)} left')
        is_due = (runner.iter + 1) % max(1, runner.max_iters // MAX_LINES) == 0
        if not self.by_epoch and runner.val_loop is None and is_due:
            self.finish_row(runner, done)

    def after_train_epoch(self, runner: Runner) -> None:
        if self.by_epoch:
            self.finish_row(runner, runner.iter - self.first)

    def before_val_epoch(self, runner: Runner) -> None:
        self.val_started = time.monotonic()
        if not self.by_epoch:
            self.finish_row(runner, runner.iter - self.first)

    def after_val_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        self.show(f'validating, {batch_idx + 1}/{len(runner.val_dataloader)}')

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        self.show(f'testing, {batch_idx + 1}/{len(runner.test_dataloader)}')

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        self.hide()

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        self.row_started = time.monotonic()
        self.validated += self.row_started - self.val_started
        self.was_empty = not metrics and not self.best
        if not metrics:
            self.row += f'  {NO_METRICS}'
        for name, value in in_percent(metrics or {}).items():
            self.best[name] = max(value, self.best.get(name, value))
            self.row += f'  {name} {value} (best {self.best[name]})'
        self.flush()

    def after_train(self, runner: Runner) -> None:
        self.flush()
        self.hide()

    def advice(self, runner: Runner) -> Iterator[str]:
        """What helps a run that has ended without finding anything."""
        if not self.was_empty and max(self.best.values(), default=LOW) >= LOW:
            return
        steps = counted(runner.iter - self.first, 'step')
        name, value = next(iter(self.best.items()), ('', 0))
        found = f'{name} is {value} %' if name else 'nothing was detected'
        text = f'WARNING: {found} after {steps}'
        if start_of(runner):
            yield f'{text}: train longer'
        else:
            yield (
                f'{text} from {RANDOM}: train longer, or start from pretrained ones, with '
                'load_from or the init_cfg of the backbone'
            )

    def finish_row(self, runner: Runner, done: int) -> None:
        """Complete the line, which waits for a validation."""
        self.flush()
        self.row = self.describe(runner, done)
        self.row_images, self.row_started = 0, time.monotonic()

    def describe(self, runner: Runner, done: int) -> str:
        """Progress, loss and images per second since the last line."""
        if self.by_epoch:
            # within an epoch, the loop has counted the finished ones only
            epoch = -(-(self.first + done) // len(runner.train_dataloader))
            progress = f'epoch {epoch:>{len(str(runner.max_epochs))}}/{runner.max_epochs}'
        else:
            width = len(str(runner.max_iters))
            progress = f'step {self.first + done:>{width}}/{runner.max_iters}'
        history = runner.message_hub.log_scalars.get('train/loss')
        loss = f'  loss {history.mean(WINDOW):.4g}' if history is not None else ''
        rate = self.row_images / max(time.monotonic() - self.row_started, 1e-6)
        return f'{progress}{loss}  {rate:.3g} images/s'

    def time_left(self, runner: Runner, done: int) -> str:
        spent = time.monotonic() - self.started - self.validated
        return duration(spent / done * (runner.max_iters - self.first - done))

    def flush(self) -> None:
        if self.row:
            self.print(self.row)
        self.row = ''

    def print(self, text: str) -> None:
        self.console.print(text, markup=False)

    def show(self, text: str) -> None:
        """Show the text in the live line, if there is a terminal."""
        if self.live is not None:
            self.live.update(text)
        elif self.console.is_terminal:
            self.live = self.console.status(text)
            self.live.start()

    def hide(self) -> None:
        """Remove the live line."""
        if self.live is not None:
            self.live.stop()
        self.live = None
