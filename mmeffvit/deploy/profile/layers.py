"""Time per layer of a file, from the profilers of ONNX Runtime and OpenVINO."""

import json
import statistics
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.formats.openvino.open import compile_openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.utils.onnx import open_session, run_session
from mmeffvit.utils.optional import require

WARM_UP = 2  # runs that are not counted
CONTROL_FLOW = ('If', 'Loop', 'Scan')  # their time includes that of the nodes inside
Run = dict[tuple[str, str], float]  # seconds by name and kind of operator


@dataclass(frozen=True)
class Layer:
    """A layer of a file, or several that the runtime has fused.

    Args:
        name: Names of the module and the operator, or the runtime's own name.
        kind: The runtime's name for the kind of operator.
        seconds: Median time of a run.
    """

    name: str
    kind: str
    seconds: float


@dataclass(frozen=True)
class LayerTimes:
    """All layers of a file, in the order of execution.

    Args:
        runtime: Name of the runtime.
        threads: Number of threads.
        layers: The layers.
        seconds: Median time of a whole run while the layers were timed, which takes longer.
    """

    runtime: str
    threads: int
    layers: tuple[Layer, ...]
    seconds: float

    @property
    def total(self) -> float:
        """Seconds of all layers together."""
        return sum(layer.seconds for layer in self.layers)

    def kinds(self) -> list[tuple[str, int, float]]:
        """Kind of operator, number of layers and seconds, the slowest first."""
        found: dict[str, list[float]] = defaultdict(list)
        for layer in self.layers:
            found[layer.kind].append(layer.seconds)
        rows = [(kind, len(times), sum(times)) for kind, times in found.items()]
        return sorted(rows, key=lambda row: row[2], reverse=True)


def time_layers(path: Path, images: NDArray, threads: int, seconds: float) -> LayerTimes:
    """Time the layers of an ``.onnx`` or ``.xml`` file for about ``seconds``."""
    measure = onnx_runs if path.suffix == '.onnx' else openvino_runs
    whole, runs = measure(path, images, threads, seconds)
    names = dict.fromkeys(key for run in runs for key in run)
    layers = [Layer(*name, statistics.median(run.get(name, 0.0) for run in runs)) for name in names]
    return LayerTimes(
        BY_SUFFIX[path.suffix].runtime, threads, tuple(layers), statistics.median(whole)
    )


def onnx_runs(
    path: Path, images: NDArray, threads: int, seconds: float
) -> tuple[list[float], list[Run]]:
    """Seconds of whole runs in ONNX Runtime, and of their nodes."""
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(path, threads, Path(folder, 'trace'))
        timed(lambda: run_session(session, images), seconds, warm_up=WARM_UP)
        events = json.loads(Path(session.end_profiling()).read_text())
    graph = require('onnx', 'Reading .onnx').load(str(path), load_external_data=False).graph
    # ONNX Runtime names fused convolutions after their outputs
    names = {output: node.name for node in graph.node for output in node.output}
    return parse_trace(events, names)


def parse_trace(
    events: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> tuple[list[float], list[Run]]:
    """Seconds of runs and their nodes, from the events of ONNX Runtime's profiler."""
    whole = sorted((e['ts'], e['dur']) for e in events if e['name'] == 'model_run')
    starts = [start for start, _ in whole]
    runs: list[Run] = [defaultdict(float) for _ in whole]
    nodes = [e for e in events if e['cat'] == 'Node' and e['name'].endswith('_kernel_time')]
    branches: list[tuple[tuple[str, str], float]] = []  # nodes that run others, and their ends
    for event in sorted(nodes, key=lambda e: (e['ts'], -e['dur'])):
        name, end = event['name'].removesuffix('_kernel_time'), event['ts'] + event['dur']
        key = (names.get(name.removesuffix('_nchwc'), name), event['args']['op_name'])
        run = runs[bisect_right(starts, event['ts']) - 1]
        run[key] += event['dur'] / 1e6
        while branches and branches[-1][1] <= event['ts']:
            branches.pop()
        if branches:  # it is part of the time of an `If` or a loop
            run[branches[-1][0]] -= event['dur'] / 1e6
        if key[1] in CONTROL_FLOW:
            branches.append((key, end))
    return [duration / 1e6 for _, duration in whole[WARM_UP:]], runs[WARM_UP:]


def openvino_runs(
    path: Path, images: NDArray, threads: int, seconds: float
) -> tuple[list[float], list[Run]]:
    """Seconds of whole runs in OpenVINO, and of their layers."""
    compiled = compile_openvino(str(path), threads, timed=True)
    request = compiled.create_infer_request()
    runs: list[Run] = []

    def run() -> None:
        request.infer([images])
        runs.append({
            (info.node_name.removesuffix('/WithoutBiases'), info.node_type): (
                info.real_time.total_seconds()
            )
            for info in request.get_profiling_info()
            if info.status.name == 'EXECUTED'
        })  # fmt: skip

    return timed(run, seconds, warm_up=WARM_UP), runs[WARM_UP:]


def timed(
    run: Callable[[], object],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: int = 1,  # the first run finds caches as another process has left them
) -> list[float]:
    """Seconds of every run after the warm-up, for about ``seconds`` but at least one run."""
    for _ in range(warm_up):
        run()
    times: list[float] = []
    start = time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        before = clock()
        run()
        times.append(clock() - before)
    return times
