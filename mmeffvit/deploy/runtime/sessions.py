"""An exported file, opened in the runtime it is for."""

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS
from mmeffvit.deploy.formats.openvino.write import METADATA, compile_openvino, read_openvino
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.onnx import open_session, run_session
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.schema import is_dict, is_text
from mmeffvit.utils.text import reason

from .resizing import check_size, fixed_size

RUNTIMES = {  # by suffix
    '.onnx': 'ONNX Runtime',
    '.xml': 'OpenVINO',
    '.pte': 'ExecuTorch',
    '.tflite': 'LiteRT',
    '.param': 'ncnn',
}
INPUT = 'images'  # its name in every format
MAX_LABELS = 2**16 - 1  # label maps are written with 16 bits
# in the ZIP archive at the end of a .tflite
LITERT_METADATA, LABELS = 'metadata.json', 'labels.txt'


@dataclass(frozen=True)
class Session:
    """A loaded file.

    Args:
        shape: (B, 3, H, W) of the images; sizes that are not fixed are not integers.
        outputs: Names of the outputs.
        metadata: Metadata of the file, strings by name.
        compute: Outputs by name for images (B, 3, H, W).
    """

    shape: tuple[Any, ...]
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]
    compute: Callable[[NDArray], dict[str, NDArray]]

    def run(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by name for images (B, 3, H, W).

        Raises:
            UserError: If the file does not take them, the runtime fails, or objects or a label map
                are not in our layout.
        """
        try:
            outputs = self.compute(images)
        except UserError:
            raise
        except Exception as error:  # onnxruntime has a dozen exception classes
            raise UserError(
                f'the model does not run on images of {images.shape} ({reason(error)})'
            ) from error
        check_outputs(outputs, images)
        return outputs


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
    if not (is_dict(session.metadata) and all(map(is_text, session.metadata.values()))):
        raise UserError(f'{path}: its metadata must be strings by name')
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


def open_litert(model: str | os.PathLike | bytes, threads: int = 0) -> Session:
    """Load a LiteRT file, with its metadata, or its bytes, without; maps are (1, C, h, w)."""
    tools = require('ai_edge_litert.interpreter', 'Reading .tflite')
    is_content = isinstance(model, bytes)
    source = dict(model_content=model) if is_content else dict(model_path=str(model))
    with quiet():
        interpreter = tools.Interpreter(**source, num_threads=threads or os.cpu_count() or 1)
        runner = interpreter.get_signature_runner()
    size = runner.get_input_details()[INPUT]['shape']
    shape = tuple(int(size[axis]) for axis in (0, 3, 1, 2))

    def run(images: NDArray) -> dict[str, NDArray]:
        check_images(images, shape)
        outputs = runner(**{INPUT: np.ascontiguousarray(images.transpose(0, 2, 3, 1))})
        return {
            name: value.transpose(0, 3, 1, 2) if value.ndim == 4 else value
            for name, value in outputs.items()
        }

    metadata = {}
    if not is_content:
        with zipfile.ZipFile(model) as archive:
            metadata = json.loads(archive.read(LITERT_METADATA))
    return Session(shape, tuple(runner.get_output_details()), metadata, run)


def write_litert(out: str | os.PathLike, model: bytes, metadata: Mapping[str, str]) -> None:
    """Write a LiteRT model with its metadata."""
    Path(out).write_bytes(model)
    with zipfile.ZipFile(out, 'a') as archive:
        archive.writestr(LITERT_METADATA, json.dumps(dict(metadata)))
        if 'classes' in metadata:
            archive.writestr(LABELS, '\n'.join(json.loads(metadata['classes'])))


def open_ncnn(path: Path, threads: int = 0, *, half: bool = False) -> Session:
    """Load an ncnn file, with its weights and the metadata next to it."""
    ncnn = require('ncnn', 'Reading .param')
    net = ncnn.Net()
    net.opt.num_threads = threads or 1
    net.opt.use_vulkan_compute = False
    net.opt.use_bf16_storage = False
    for name in ('fp16_packed', 'fp16_storage', 'fp16_arithmetic'):
        setattr(net.opt, f'use_{name}', half)
    if net.load_param(str(path)) or net.load_model(str(path.with_suffix('.bin'))):
        raise UserError(f'ncnn cannot read {path} and its .bin')
    names = tuple(net.output_names())
    shape = ncnn_shape(path)

    def run(images: NDArray) -> dict[str, NDArray]:
        check_images(images, (1, 3, *(fixed_size(shape) or images.shape[2:])))
        extractor = net.create_extractor()
        # a Mat borrows the memory of the array; its clone owns its own
        extractor.input(INPUT, ncnn.Mat(np.ascontiguousarray(images[0])).clone())
        outputs = {}
        for name in names:
            status, value = extractor.extract(name)
            if status:
                raise UserError(f'ncnn cannot compute {name} of {path}: its status is {status}')
            outputs[name] = np.array(value)[None]
        return outputs

    described = path.with_suffix('.json')
    metadata = read_json(described) if described.exists() else {}
    return Session(shape, names, metadata, run)


def ncnn_shape(path: Path) -> tuple[Any, ...]:
    """The shape of the images of an ncnn file; sides that it does not give are None."""
    layers = (line.split() for line in path.read_text().splitlines()[2:])
    options = next((words[4:] for words in layers if words[:1] == ['Input']), [])
    given = dict(option.split('=') for option in options if '=' in option)
    sides = (int(given.get(key, 0)) or None for key in ('1', '0'))  # height, width
    return 1, 3, *sides


def open_executorch(path: str | os.PathLike, threads: int = 0) -> Session:
    """Load a program of ExecuTorch; its outputs have numbers instead of names.

    All programs of the process share the number of threads.
    """
    runtime = require('executorch.runtime', 'Reading .pte')
    if threads:
        library = require('executorch.extension.pybindings.portable_lib', 'Reading .pte')
        library._unsafe_reset_threadpool(threads)  # unsafe while a program runs
    program = runtime.Runtime.get().load_program(str(path))
    loaded = program, program.load_method('forward')  # a method does not keep its program alive
    shape = tuple(loaded[1].metadata.input_tensor_meta(0).sizes())

    def run(images: NDArray) -> dict[str, NDArray]:
        import torch

        check_images(images, shape)
        # the runtime ignores strides; its outputs share memory that the next call overwrites
        outputs = loaded[1].execute([torch.from_numpy(np.ascontiguousarray(images))])
        return {str(index): output.numpy().copy() for index, output in enumerate(outputs)}

    return Session(shape, (), {}, run)


def check_outputs(outputs: Mapping[str, NDArray], images: NDArray) -> None:
    """Check the objects or the label map that a file returns for images (B, 3, H, W).

    Raises:
        UserError: If the shape or type of an output is wrong, or a value is beyond its range.
    """
    count, _, height, width = images.shape
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {}  # kinds of NumPy types, and shapes
    if others := [name for name, value in outputs.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f'the file returns {", ".join(others)}, which must be tensors')
    if {*OBJECTS[:2]} <= set(outputs):
        number = outputs['boxes'].shape[1:2] or (0,)
        rest = () if 'labels' in outputs else outputs['scores'].shape[2:3]  # before NMS: classes
        wanted = dict(boxes=('f', (count, *number, 4)), scores=('f', (count, *number, *rest)))
        wanted |= dict(labels=('iu', (count, *number))) if 'labels' in outputs else {}
        if 'masks' in outputs:
            sides = [max(side, 1) for side in outputs['masks'].shape[2:4]] or [1]
            wanted['masks'] = 'f', (count, *number, sides[0], sides[-1])
    if 'label_map' in outputs:
        wanted['label_map'] = 'iu', (count, height, width)
    for name, (kinds, shape) in wanted.items():
        value = outputs[name]
        if value.dtype.kind not in kinds or value.shape != shape:
            raise UserError(
                f'the file returns {name} of shape {value.shape} and type {value.dtype}; it must '
                f'return {"integers" if kinds == "iu" else "floats"} of shape {shape}'
            )
        if kinds == 'f' and not np.isfinite(value).all():
            raise UserError(f'the file returns {name} that are not finite')
    if 'label_map' in wanted:
        check_labels(outputs['label_map'], MAX_LABELS)


def check_labels(labels: NDArray, limit: int) -> None:
    """Raise UserError if one cannot be the label of one of ``limit`` classes."""
    if labels.size and not (labels.min() >= 0 and labels.max() < limit):
        raise UserError(f'the file returns labels from {labels.min()} to {labels.max()}; valid '
                        f'ones are 0 to {limit - 1:,}')  # fmt: skip


def check_images(images: NDArray, shape: tuple[int, ...]) -> None:
    """Raise UserError if the images are not of the only shape of a file."""
    if images.shape != shape:
        raise UserError(f'the file takes images of {shape}, not {images.shape}')
