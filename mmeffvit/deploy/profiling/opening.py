"""Opening a file of any format in the runtime it is for."""

from collections.abc import Sequence
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.predictor.sessions import Session, open_model, open_openvino, readable
from mmeffvit.deploy.runtimes.ncnn_file import Ncnn
from mmeffvit.deploy.runtimes.openvino import read_openvino
from mmeffvit.errors import UserError
from mmeffvit.utils.reading import read_json

RUNTIMES = {  # by suffix, with their packages
    '.onnx': ('ONNX Runtime', 'onnxruntime'),
    '.xml': ('OpenVINO', 'openvino'),
    '.pte': ('ExecuTorch', 'executorch'),
    '.tflite': ('LiteRT', 'ai_edge_litert'),
    '.param': ('ncnn', 'ncnn'),
}


def open_file(path: Path, threads: int = 0, *, half: bool = False) -> Session:
    """Load a file with its runtime, for the CPU.

    Args:
        path: The file; its suffix is one of :data:`RUNTIMES`.
        threads: Number of threads; 0 for the runtime's default.
        half: Compute in float16 where OpenVINO and ncnn can, instead of float32.

    Raises:
        UserError: If it is missing or cannot be read, or the runtime is not installed.
    """
    if path.suffix not in RUNTIMES:
        raise UserError(f'{path} ends in {path.suffix!r}; choose from {", ".join(RUNTIMES)}')
    if path.suffix == '.onnx' or path.suffix == '.tflite' or (path.suffix == '.xml' and not half):
        return open_model(path, threads)
    with readable(path):
        if path.suffix == '.xml':
            return open_openvino(read_openvino(path), threads, half=half)
        if path.suffix == '.pte':
            return open_executorch(path, threads)
        net = Ncnn(path, threads=threads or 1, half=half)
        described = path.with_suffix('.json')
        metadata = read_json(described) if described.exists() else {}
        return Session((1, 3, None, None), net.outputs, metadata, net)


def open_executorch(path: Path, threads: int = 0) -> Session:
    """Load a program of ExecuTorch; its outputs have no names, but numbers."""
    import torch

    from mmeffvit.deploy.runtimes.executorch_file import ExecuTorch

    program = ExecuTorch(path, threads=threads)

    def run(images: NDArray) -> dict[str, NDArray]:
        return numbered([value.numpy() for value in program(torch.from_numpy(images))])

    return Session(program.shape, (), {}, run)


def numbered(values: Sequence[NDArray]) -> dict[str, NDArray]:
    return {str(index): value for index, value in enumerate(values)}
