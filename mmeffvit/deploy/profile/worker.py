"""A process that runs one file and prints JSON, so that memory and threads are its own."""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mmeffvit.deploy.formats.table import BY_SUFFIX, open_model
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.utils.machine import resident_memory
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason

CLOCKS: dict[str, Callable[[], float]] = {
    'wall': time.perf_counter,
    'processor': time.process_time,  # of all threads
}


@dataclass(frozen=True)
class Job:
    """The job of a process; a model in PyTorch runs in this one."""

    path: Path
    images: Path = Path()  # (B, 3, H, W), in a .npy file
    threads: int = 0  # the runtime's default
    half: bool = False  # compute in float16 where the runtime can
    clock: str = 'wall'
    device: str = 'cpu'  # or the GPU that runs it
    graph: Any = None  # a graph in PyTorch, instead of a file

    def open(self) -> Session:
        """Load the file, or copy the graph to its device."""
        if self.graph is None:
            return open_model(self.path, self.threads, half=self.half, device=self.device)
        from .pytorch import open_graph  # it imports torch

        return open_graph(deepcopy(self.graph), self.device, half=self.half)


def timed(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> list[float]:
    """Seconds of every run after the first, for about ``seconds`` but at least one run."""
    run()  # it finds caches as another process has left them
    times: list[float] = []
    start = time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        before = clock()
        run()
        times.append(clock() - before)
    return times


def answers(lines: TextIO) -> Iterator[dict[str, Any]]:
    """An answer to a job, when its file is loaded, then times and memory for lines of seconds."""
    values = json.loads(lines.readline())
    job = Job(**{**values, 'path': Path(values['path']), 'images': Path(values['images'])})
    require(BY_SUFFIX[job.path.suffix].module, 'Profiling')  # before its memory is measured
    images, before = np.load(job.images), resident_memory()
    session = job.open()
    session.run(images)
    yield {}
    gc.disable()
    for line in lines:
        times = timed(lambda: session.compute(images), float(line), CLOCKS[job.clock])
        peak = resident_memory(peak=True)
        yield dict(times=times, peak=peak, added=peak - before)


def main() -> None:
    """Answer the lines of standard input in JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    out = os.fdopen(os.dup(sys.stdout.fileno()), 'w', buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # runtimes print, too
    try:
        for answer in answers(sys.stdin):
            out.write(f'{json.dumps(answer)}\n')
    except Exception as error:  # of any runtime
        out.write(f'{json.dumps(dict(error=reason(error)))}\n')


if __name__ == '__main__':
    main()
