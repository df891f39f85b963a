"""OpenVINO, Intel's runtime for CPUs, GPUs and NPUs."""

from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.utils.optional import require

METADATA = 'mmeffvit'  # key of the ONNX file's metadata in the IR


@cache
def core() -> Any:
    """The runtime, which all models of a process share.

    On CPUs with AMX, each ``Core`` replaces the signal stack of the process, and restores the
    previous one when it ends. If cores do not end in reverse order, that stack is gone (OpenVINO
    2026.4), and the next signal ends the process.
    """
    return require('openvino', 'Running OpenVINO').Core()


def load(path: Path, threads: int, *, half: bool, **_: Any) -> Session:
    return open_openvino(core().read_model(str(path)), threads, half=half)


def open_openvino(model: Any, threads: int = 0, *, half: bool = False) -> Session:
    """Compile an ``openvino.Model`` for the CPU; ``half`` computes in float16 if the CPU can."""
    # without a hint, CPUs with bfloat16 support would use it
    settings: dict[str, Any] = {'INFERENCE_PRECISION_HINT': 'f16' if half else 'f32'}
    if threads:
        settings |= {'INFERENCE_NUM_THREADS': threads, 'NUM_STREAMS': 1}
    compiled = core().compile_model(model, 'CPU', settings)
    shapes = [
        tuple(side.get_length() if side.is_static else None for side in each.partial_shape)
        for each in compiled.inputs
        if each.partial_shape.rank.is_static and each.element_type.get_type_name() == 'f32'
    ]

    def run(images: NDArray) -> dict[str, NDArray]:
        results = compiled(images)
        return {output.get_any_name(): results[output] for output in compiled.outputs}

    given = model.get_rt_info([METADATA]).value if model.has_rt_info([METADATA]) else {}
    return Session(
        shapes[0] if len(shapes) == 1 == len(compiled.inputs) else (),
        tuple(output.get_any_name() for output in compiled.outputs),
        {name: str(value) for name, value in given.items()},
        run,
    )
