"""The measurements of a profile, as a table and as JSON."""

from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.errors import UserError
from mmeffvit.utils.text import align, counted, shortened

from .candidates import Absent, Candidate
from .layers import LayerTimes
from .rounds import Timing

MIB = 2**20
LISTED = 5  # layers and kinds of operators in the tables; --json has all
LONGEST = 60  # characters of a layer's name
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


@dataclass(frozen=True)
class Profile:
    """Speed, memory and agreement of a model in each runtime on this host.

    Args:
        model: Name of the model.
        shape: (B, 3, H, W) of the images.
        machine: Name of the CPU.
        cores: Number of cores.
        clock: 'wall', or 'processor' for the CPU time of all threads.
        measured: Files that agree with the model, the fastest first.
        absent: What was not measured, and why.
        layers: Time per layer, if a runtime measures it.
        gpu: Name of the GPU, empty if none was measured.
    """

    model: str
    shape: tuple[int, ...]
    machine: str
    cores: int
    clock: str
    measured: tuple[Measured, ...]
    absent: tuple[Absent, ...]
    layers: LayerTimes | None
    gpu: str = ''

    @property
    def best(self) -> Measured:
        """The fastest file that agrees."""
        return self.measured[0]

    @property
    def best_file(self) -> Measured:
        """The fastest exported file that agrees, unlike a model in PyTorch.

        Raises:
            UserError: If there is none.
        """
        for each in self.measured:
            if each.candidate.path:
                return each
        raise UserError(f'nothing to write: {self.best} is not an exported file')

    @property
    def close(self) -> tuple[Measured, ...]:
        """Files that are not clearly slower: their times overlap with the best file's."""
        _, high = self.best.timing.spread
        return tuple(each for each in self.measured[1:] if each.timing.spread[0] < high)

    def __str__(self) -> str:
        height, width = self.shape[2:]
        hardware = f'{self.machine}, {self.cores} cores' + (f', and {self.gpu}' if self.gpu else '')
        unit = {'wall': 'wall clock', 'processor': 'CPU time'}[self.clock]
        lines = [
            f'{self.model}, batch {self.shape[0]}, {height} x {width}, on {hardware}; {unit}, '
            'medians with the first and the last decile',
            '',
            *align(self.table(), numbers=False),
            '',
            *map(str, self.absent),
            '',
            f'fastest that agrees: {self.best}, {1e3 * self.best.timing.median:.2f} ms',
        ]
        if self.close:
            lines.append(f'not clearly slower, by its spread: {"; ".join(map(str, self.close))}')
        if self.best.candidate.device != 'cpu':
            lines.append(f'(with copies of the image to {self.gpu} and of the outputs back)')
        elif self.best.candidate.half:
            kind = BY_SUFFIX[self.best.candidate.path.suffix]
            lines.append(f'(float16: {kind.half_setting})')
        return '\n'.join([*lines, *self.layer_lines()])

    def table(self) -> list[list[str]]:
        rows = [HEADING]
        for each in self.measured:
            file, timing = each.candidate, each.timing
            low, high = (f'{1e3 * value:.2f}' for value in timing.spread)
            rows.append([
                file.runtime,
                file.precision,
                str(timing.threads),
                f'{1e3 * timing.median:.2f}',
                f'{low} to {high}',
                f'{self.shape[0] / timing.median:.1f}',
                f'{1e3 * timing.last_steps:.2f}' if file.last_steps else 'in the file',
                f'{timing.memory.peak / MIB:.0f}',
                f'{timing.memory.added / MIB:.0f}',
                file.agreement,
            ])  # fmt: skip
        return rows

    def layer_lines(self) -> list[str]:
        times = self.layers
        if times is None:
            return ['', 'time per layer: only ONNX Runtime and OpenVINO on a CPU measure it']

        def share(seconds: float) -> list[str]:
            return [f'{1e3 * seconds:.3f}', f'{seconds / times.total:.1%}']

        found, rest = times.kinds()[:LISTED], times.kinds()[LISTED:]
        if rest:
            found.append(('others', sum(n for _, n, _ in rest), sum(value for *_, value in rest)))
        kinds = [[kind, str(count), *share(value)] for kind, count, value in found]
        slowest = [
            [shortened(layer.name, LONGEST), layer.kind, *share(layer.seconds)]
            for layer in nlargest(LISTED, times.layers, key=lambda layer: layer.seconds)
        ]
        return [
            '',
            f'{times.runtime}, float32, threads: {times.threads}; layers take '
            f'{1e3 * times.total:.2f} ms, a run while they are timed {1e3 * times.seconds:.2f} ms',
            '',
            *align([['operator', 'number', 'ms', 'share'], *kinds], numbers=False),
            '',
            *align([['slowest layers', 'operator', 'ms', 'share'], *slowest], numbers=False),
        ]

    def as_dict(self) -> dict[str, Any]:
        return dict(
            model=self.model,
            shape=list(self.shape),
            machine=self.machine,
            cores=self.cores,
            gpu=self.gpu,
            clock=self.clock,
            best=str(self.best),
            close=[str(each) for each in self.close],
            measured=[
                dict(
                    runtime=each.candidate.runtime,
                    precision=each.candidate.precision,
                    device=each.candidate.device,
                    threads=each.timing.threads,
                    median=each.timing.median,
                    spread=list(each.timing.spread),
                    seconds=list(each.timing.seconds),
                    last_steps=each.timing.last_steps,
                    peak_bytes=each.timing.memory.peak,
                    model_bytes=each.timing.memory.added,
                    agreement=dict(each.candidate.measures),
                )
                for each in self.measured
            ],
            absent=[vars(each) for each in self.absent],
            layers=self.layers
            and dict(
                runtime=self.layers.runtime,
                threads=self.layers.threads,
                run_seconds=self.layers.seconds,
                total_seconds=self.layers.total,
                kinds=[
                    dict(kind=kind, number=number, seconds=seconds)
                    for kind, number, seconds in self.layers.kinds()
                ],
                layers=[vars(layer) for layer in self.layers.layers],
            ),
        )
