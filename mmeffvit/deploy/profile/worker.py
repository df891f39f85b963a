"""A process that runs one file, so that its memory and its threads are not shared with others."""

import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from mmeffvit.deploy.formats.table import BY_SUFFIX, open_model
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import resident_memory
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason

from .layers import time_layers, timed

if TYPE_CHECKING:  # it imports torch
    from mmeffvit.deploy.graphs.base import Graph

CLOCKS: dict[str, Callable[[], float]] = {
    'wall': time.perf_counter,
    'processor': time.process_time,  # of all threads
}


@dataclass(frozen=True)
class Job:
    """The job of a process.

    Args:
        path: The file; None for a model in PyTorch.
        images: Images (B, 3, H, W) in a ``.npy`` file.
        threads: Number of threads.
        half: Compute in float16 where the runtime can.
        clock: One of :data:`CLOCKS`.
        layers: Time the layers for this number of seconds, then end.
        device: 'cpu', or the GPU that runs it.
        graph: The model in PyTorch, without a file.
    """

    path: Path | None
    images: Path
    threads: int
    half: bool = False
    clock: str = 'wall'
    layers: float = 0.0
    device: str = 'cpu'
    graph: 'Graph | None' = None

    @property
    def suffix(self) -> str:
        """Suffix of the file; empty for a model in PyTorch."""
        return self.path.suffix if self.path else ''

    @property
    def needs_torch(self) -> bool:
        """Whether its runtime is torch or uses torch's CUDA libraries."""
        return self.device != 'cpu' or self.suffix in ('', '.pte')

    def load_runtime(self) -> None:
        """Import the runtime, before its memory is measured."""
        name = BY_SUFFIX[self.suffix].module if self.suffix else 'torch'
        module = require(name, 'Profiling')
        if not self.suffix:
            module.set_num_threads(self.threads)

    def open(self) -> Session:
        """Load the file."""
        if self.path is None:
            from .pytorch import open_graph  # it imports torch

            return open_graph(self.graph, self.device, half=self.half)
        return open_model(self.path, self.threads, half=self.half, device=self.device)


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process in bytes.

    Args:
        peak: Maximum, with Python and the runtime's libraries.
        added: Increase of the maximum since before the file was loaded.
    """

    peak: int
    added: int


def serve(receive: BinaryIO, send: BinaryIO) -> None:
    """Answer messages: a :class:`Job` with its outputs, then seconds with the times of runs.

    None is answered with the memory and ends the process; an error is answered with itself.
    """

    def answer(value: object) -> None:
        pickle.dump(value, send)
        send.flush()

    try:
        job: Job = pickle.load(receive)
        job.load_runtime()
        images = np.load(job.images)
        before = resident_memory()
        if job.layers:
            answer(time_layers(job.path, images, job.threads, job.layers))
            return
        session = job.open()
        answer(session.run(images))
        gc.disable()
        while (seconds := pickle.load(receive)) is not None:
            answer(timed(lambda: session.compute(images), seconds, CLOCKS[job.clock]))
        peak = resident_memory(peak=True)
        answer(Memory(peak, peak - before))
    except EOFError:  # the parent has ended
        return
    except UserError as error:
        answer(error)
    except Exception as error:  # of any runtime
        answer(UserError(reason(error)))


def main() -> None:
    """Serve the parent through standard input and output; runtimes write to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    with os.fdopen(os.dup(sys.stdout.fileno()), 'wb') as send:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin.buffer, send)
