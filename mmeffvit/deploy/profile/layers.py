"""Time per layer of a file, from the profilers of ONNX Runtime and OpenVINO."""

import json
import statistics
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mmeffvit.deploy.formats.openvino.open import compile_openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.utils.onnx import open_session, run_session
from mmeffvit.utils.optional import require

WARM_UP = 2  # runs that are not counted
Run = dict[tuple[str, str], float]  # seconds by name and kind of operator


class Layer(NamedTuple):
    """A layer of a file, or several that the runtime has fused, and the median time of a run.

    The name is that of the module and the operator, or the runtime's own.
    """

    name: str
    kind: str
    seconds: float


class LayerTimes(NamedTuple):
    """All layers of a file, in the order of execution.

    ``seconds`` is the median of whole runs while the layers were timed, which takes longer.
    """

    runtime: str
    threads: int
    layers: Sequence[Layer]
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

    def as_dict(self) -> dict[str, Any]:
        names = ('kind', 'number', 'seconds')
        return dict(
            runtime=self.runtime, threads=self.threads, run_seconds=self.seconds,
            total_seconds=self.total,
            kinds=[dict(zip(names, row, strict=True)) for row in self.kinds()],
            layers=[layer._asdict() for layer in self.layers],
        )  # fmt: skip


def time_layers(path: Path, images: NDArray, threads: int, seconds: float) -> LayerTimes:
    """Time the layers of an ``.onnx`` or ``.xml`` file for about ``seconds``."""
    measure = onnx_runs if path.suffix == '.onnx' else openvino_runs
    whole, runs = measure(path, images, threads, seconds)
    names = dict.fromkeys(key for run in runs for key in run)
    layers = [Layer(*name, statistics.median(run.get(name, 0.0) for run in runs)) for name in names]
    return LayerTimes(BY_SUFFIX[path.suffix].runtime, threads, layers, statistics.median(whole))


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
    for event in sorted(nodes, key=lambda e: e['ts']):
        name = event['name'].removesuffix('_kernel_time')
        key = (names.get(name.removesuffix('_nchwc'), name), event['args']['op_name'])
        runs[bisect_right(starts, event['ts']) - 1][key] += event['dur'] / 1e6
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
        layers = (i for i in request.get_profiling_info() if i.status.name == 'EXECUTED')
        names = ((i.node_name.removesuffix('/WithoutBiases'), i.node_type, i) for i in layers)
        runs.append({(name, kind): i.real_time.total_seconds() for name, kind, i in names})

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
