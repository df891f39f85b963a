"""The measurements of a profile, as a table and as JSON."""

from dataclasses import dataclass
from typing import Any

from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.utils.text import align, counted

from .candidates import Candidate
from .rounds import Timing

MIB = 2**20
UNITS = {'wall': 'wall clock', 'processor': 'CPU time'}
HEADING = [
    'runtime', 'precision', 'threads', 'ms', '10 % to 90 %', 'images/s', 'ms of last steps',
    'peak MiB', 'MiB of model', 'agreement',
]  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A file and its times with a number of threads."""

    candidate: Candidate
    timing: Timing

    def __str__(self) -> str:
        threads = counted(self.timing.threads, 'thread')
        return f'{self.candidate.runtime}, {self.candidate.precision}, {threads}'

    def cells(self, images: int) -> list[str]:
        file, timing = self.candidate, self.timing
        low, high = (f'{1e3 * value:.2f}' for value in timing.spread)
        steps = f'{1e3 * timing.last_steps:.2f}' if file.last_steps else 'in the file'
        return [
            file.runtime, file.precision, str(timing.threads), f'{1e3 * timing.median:.2f}',
            f'{low} to {high}', f'{images / timing.median:.1f}', steps,
            f'{timing.peak / MIB:.0f}', f'{timing.added / MIB:.0f}', file.reason,
        ]  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        file, timing = self.candidate, self.timing
        return dict(
            runtime=file.runtime, precision=file.precision, device=file.device,
            threads=timing.threads, median=timing.median, spread=list(timing.spread),
            seconds=list(timing.seconds), last_steps=timing.last_steps, peak_bytes=timing.peak,
            model_bytes=timing.added, agreement=dict(file.measures),
        )  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """Speed, memory and agreement of a model in each runtime on this host."""

    model: str
    shape: tuple[int, ...]  # (B, 3, H, W) of the images
    machine: str  # name of the CPU
    cores: int
    clock: str
    measured: tuple[Measured, ...]  # files that agree with the model, the fastest first
    absent: tuple[Candidate, ...]  # what was not measured, and why
    gpu: str = ''  # its name, if one was measured

    @property
    def best(self) -> Measured:
        """The fastest file that agrees."""
        return self.measured[0]

    @property
    def close(self) -> tuple[Measured, ...]:
        """Files that are not clearly slower: their times overlap with the best file's."""
        _, high = self.best.timing.spread
        return tuple(each for each in self.measured[1:] if each.timing.spread[0] < high)

    def __str__(self) -> str:
        hardware = f'{self.machine}, {self.cores} cores' + (f', and {self.gpu}' if self.gpu else '')
        rows = [each.cells(self.shape[0]) for each in self.measured]
        lines = [
            f'{self.model}, batch {self.shape[0]}, {self.shape[2]} x {self.shape[3]}, on '
            f'{hardware}; {UNITS[self.clock]}, medians with the first and the last decile',
            '', *align([HEADING, *rows], numbers=False), '', *map(str, self.absent), '',
            f'fastest that agrees: {self.best}, {1e3 * self.best.timing.median:.2f} ms',
        ]  # fmt: skip
        if self.close:
            lines.append(f'not clearly slower, by its spread: {"; ".join(map(str, self.close))}')
        if self.best.candidate.device != 'cpu':
            lines.append(f'(with copies of the image to {self.gpu} and of the outputs back)')
        elif self.best.candidate.half:
            kind = BY_SUFFIX[self.best.candidate.path.suffix]
            lines.append(f'(float16: {kind.half_setting})')
        return '\n'.join(lines)

    def as_dict(self) -> dict[str, Any]:
        return dict(
            model=self.model, shape=list(self.shape), machine=self.machine, cores=self.cores,
            gpu=self.gpu, clock=self.clock, best=str(self.best), close=list(map(str, self.close)),
            measured=[each.as_dict() for each in self.measured],
            absent=[
                {name: getattr(each, name) for name in ('runtime', 'precision', 'state', 'reason')}
                for each in self.absent
            ],
        )  # fmt: skip
