"""An exported file, opened in the runtime it is for."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.runtimes.openvino import METADATA, compile_openvino, read_openvino
from mmeffvit.deploy.runtimes.phone_files import ExecuTorch, LiteRT, Ncnn, read_metadata
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.onnx import open_session, run_session
from mmeffvit.utils.text import reason

from .resizing import check_size, fixed_size

RUNTIMES = {  # by suffix, with their packages
    '.onnx': ('ONNX Runtime', 'onnxruntime'),
    '.xml': ('OpenVINO', 'openvino'),
    '.pte': ('ExecuTorch', 'executorch'),
    '.tflite': ('LiteRT', 'ai_edge_litert'),
    '.param': ('ncnn', 'ncnn'),
}


@dataclass(frozen=True)
class Session:
    """A loaded file.

    Args:
        shape: (B, 3, H, W) of the images; sizes that are not fixed are not integers.
        outputs: Names of the outputs.
        metadata: Metadata of the file, strings by name.
        run: Outputs by name for images.
    """

    shape: tuple[Any, ...]
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]
    run: Callable[[NDArray], dict[str, NDArray]]


def open_model(
    path: str | os.PathLike, threads: int = 0, *, half: bool = False, device: str = 'cpu'
) -> Session:
    """Load an exported file with its runtime.

    Args:
        path: The file; its suffix is one of :data:`RUNTIMES`, any other is read as ONNX.
        threads: Number of threads; 0 for the runtime's default.
        half: Compute in float16 where OpenVINO and ncnn can, instead of float32.
        device: 'cpu'; for ONNX also a GPU as 'cuda' or 'cuda:N'.

    Raises:
        UserError: If it is missing or cannot be read, or the runtime is not installed or cannot use
            the device.
    """
    path = Path(path)
    if device != 'cpu' and path.suffix in RUNTIMES and path.suffix != '.onnx':
        raise UserError(f'{path} runs on the CPU, not on {device}: an .onnx file runs on both')
    with readable(path):
        if path.suffix == '.tflite':
            session = open_litert(path, threads)
        elif path.suffix == '.xml':
            session = open_openvino(read_openvino(path), threads, half=half)
        elif path.suffix == '.pte':
            session = open_executorch(path, threads)
        elif path.suffix == '.param':
            session = open_ncnn(path, threads, half=half)
        else:
            session = open_onnx(path, threads, device)
    check_input(session.shape, path)
    return session


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Context for loading an exported file.

    Raises:
        UserError: If it is missing or invalid.
    """
    if not path.is_file():
        raise UserError(f'{str(path)!r} does not exist; `mmeffvit export` writes such a file')
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # onnxruntime has a dozen exception classes
        raise UserError(
            f'{path} cannot be read as a model, write it again with `mmeffvit export` '
            f'({reason(error)})'
        ) from error


def check_input(shape: tuple[Any, ...], path: Path) -> None:
    """Check the shape of the input of a model, empty if it is not one tensor of floats.

    Raises:
        UserError: If it is not one batch of images.
    """
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        takes = f'images of shape {shape}' if shape else 'other inputs'
        raise UserError(f'{path} takes {takes}, not one batch of images (B, 3, H, W) in float')
    check_size(fixed_size(shape), f'the size of the images of {path}')


def open_onnx(model: str | os.PathLike | bytes, threads: int = 0, device: str = 'cpu') -> Session:
    """Load an ONNX file, or its bytes, with ONNX Runtime."""
    session = open_session(model, threads, device=device)
    inputs = session.get_inputs()
    shape = tuple(inputs[0].shape) if [each.type for each in inputs] == ['tensor(float)'] else ()
    return Session(
        shape,
        tuple(output.name for output in session.get_outputs()),
        dict(session.get_modelmeta().custom_metadata_map),
        partial(run_session, session),
    )


def open_openvino(model: Any, threads: int = 0, *, half: bool = False) -> Session:
    """Compile an ``openvino.Model``; ``half`` computes in float16 if the CPU can."""
    compiled = compile_openvino(model, threads, half=half)
    shapes = [
        tuple(side.get_length() if side.is_static else None for side in each.partial_shape)
        for each in compiled.inputs
        if each.partial_shape.rank.is_static and each.element_type.get_type_name() == 'f32'
    ]
    given = model.get_rt_info([METADATA]).value if model.has_rt_info([METADATA]) else {}
    return Session(
        shapes[0] if len(shapes) == 1 == len(compiled.inputs) else (),
        tuple(output.get_any_name() for output in compiled.outputs),
        {name: str(value) for name, value in given.items()},
        partial(_run_openvino, compiled),
    )


def open_litert(model: str | os.PathLike | bytes, threads: int = 0) -> Session:
    """Load a LiteRT file, with its metadata, or its bytes, without."""
    runner = LiteRT(model, threads=threads or os.cpu_count() or 1)
    metadata = {} if isinstance(model, bytes) else read_metadata(model)
    return Session(runner.shape, runner.outputs, metadata, runner)


def open_ncnn(path: Path, threads: int = 0, *, half: bool = False) -> Session:
    """Load an ncnn file, with the metadata next to it."""
    net = Ncnn(path, threads=threads or 1, half=half)
    described = path.with_suffix('.json')
    metadata = read_json(described) if described.exists() else {}
    return Session((1, 3, None, None), net.outputs, metadata, net)


def open_executorch(path: str | os.PathLike, threads: int = 0) -> Session:
    """Load a program of ExecuTorch; its outputs have numbers instead of names."""
    program = ExecuTorch(path, threads=threads)
    return Session(program.shape, (), {}, program)


def _run_openvino(compiled: Any, images: NDArray) -> dict[str, NDArray]:
    try:
        results = compiled(images)
    except RuntimeError as error:
        raise UserError(
            f'the model does not run on images of {images.shape} ({reason(error)})'
        ) from error
    return {output.get_any_name(): results[output] for output in compiled.outputs}
