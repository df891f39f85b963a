"""Files for phones, run on the CPU: LiteRT, ncnn and ExecuTorch; only the last needs torch."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

INPUT = 'images'
METADATA = 'metadata.json'  # in the ZIP archive at the end of a .tflite
LABELS = 'labels.txt'


def write_litert(out: str | os.PathLike, model: bytes, metadata: Mapping[str, str]) -> None:
    """Write a model with its metadata."""
    Path(out).write_bytes(model)
    with zipfile.ZipFile(out, 'a') as archive:
        archive.writestr(METADATA, json.dumps(dict(metadata)))
        if 'classes' in metadata:
            archive.writestr(LABELS, '\n'.join(json.loads(metadata['classes'])))


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata of a ``.tflite``."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(METADATA))


class LiteRT:
    """A file, or its bytes, run by LiteRT.

    Args:
        model: The ``.tflite`` file or its content.
        threads: Number of threads.

    Attributes:
        shape: Shape of the images, (1, 3, H, W).
        outputs: Names of the outputs.

    Raises:
        UserError: If LiteRT is not installed.
    """

    def __init__(self, model: str | os.PathLike | bytes, *, threads: int = 1) -> None:
        tools = require('ai_edge_litert.interpreter', 'Reading .tflite')
        given = (
            dict(model_content=model) if isinstance(model, bytes) else dict(model_path=str(model))
        )
        with quiet():
            self.runner = tools.Interpreter(**given, num_threads=threads).get_signature_runner()
        size = self.runner.get_input_details()[INPUT]['shape']
        self.shape = tuple(int(size[axis]) for axis in (0, 3, 1, 2))
        self.outputs = tuple(self.runner.get_output_details())

    def __call__(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by name for images (1, 3, H, W); maps are (1, C, h, w) as in torch.

        Raises:
            UserError: If the images are not of the file's size, or a kernel rejects its inputs.
        """
        if images.shape != self.shape:
            raise UserError(f'the file takes images of {self.shape}, not {images.shape}')
        try:
            outputs = self.runner(**{INPUT: np.ascontiguousarray(images.transpose(0, 2, 3, 1))})
        except RuntimeError as error:
            reason = ' '.join(str(error).split())
            raise UserError(f'LiteRT cannot run the file: {reason}') from error
        return {
            name: value.transpose(0, 3, 1, 2) if value.ndim == 4 else value
            for name, value in outputs.items()
        }


class Ncnn:
    """A file run by ncnn.

    Args:
        path: The ``.param`` file; its weights are next to it.
        threads: Number of threads.
        half: Compute in float16 where ncnn has kernels for this CPU, otherwise in float32.

    Attributes:
        outputs: Names of the outputs.

    Raises:
        UserError: If ncnn is not installed, or cannot read the file.
    """

    def __init__(self, path: str | os.PathLike, *, threads: int = 1, half: bool = False) -> None:
        self.path = path
        self.ncnn = require('ncnn', 'Reading .param')
        self.net = self.ncnn.Net()
        self.net.opt.num_threads = threads
        self.net.opt.use_vulkan_compute = False
        self.net.opt.use_bf16_storage = False
        for name in ('fp16_packed', 'fp16_storage', 'fp16_arithmetic'):
            setattr(self.net.opt, f'use_{name}', half)
        weights = Path(path).with_suffix('.bin')
        if self.net.load_param(str(path)) or self.net.load_model(str(weights)):
            raise UserError(f'ncnn cannot read {path} and its .bin')
        self.outputs = tuple(self.net.output_names())

    def __call__(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by name for images (1, 3, H, W).

        Raises:
            UserError: If ncnn cannot run the file.
        """
        extractor = self.net.create_extractor()
        # a Mat borrows the memory of the array; its clone owns its own
        image = np.ascontiguousarray(images[0])
        extractor.input(INPUT, self.ncnn.Mat(image).clone())
        outputs = {}
        for name in self.outputs:
            status, value = extractor.extract(name)
            if status:
                raise UserError(
                    f'ncnn cannot compute {name} of {self.path}: its status is {status}'
                )
            outputs[name] = np.array(value)[None]
        return outputs


class ExecuTorch:
    """A program run by ExecuTorch; its outputs have no names, but numbers.

    Args:
        path: The ``.pte`` file.
        threads: Number of threads, for all programs of the process; 0 for ExecuTorch's default.

    Attributes:
        shape: Shape of the images, (1, 3, H, W).

    Raises:
        UserError: If executorch is not installed.
    """

    def __init__(self, path: str | os.PathLike, *, threads: int = 0) -> None:
        self.path = path
        runtime = require('executorch.runtime', 'Reading .pte')
        if threads:
            library = require('executorch.extension.pybindings.portable_lib', 'Reading .pte')
            library._unsafe_reset_threadpool(threads)  # unsafe while a program runs
        # a method does not keep its program alive
        self.program = runtime.Runtime.get().load_program(str(path))
        self.method = self.program.load_method('forward')
        self.shape = tuple(self.method.metadata.input_tensor_meta(0).sizes())

    def __call__(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by number for images (1, 3, H, W).

        Raises:
            UserError: If the images are not of the program's size.
        """
        import torch

        if images.shape != self.shape:
            raise UserError(f'{self.path} takes images of shape {self.shape}, not {images.shape}')
        # the runtime ignores strides; its outputs share memory that the next call overwrites
        outputs = self.method.execute([torch.from_numpy(np.ascontiguousarray(images))])
        return {str(index): output.numpy().copy() for index, output in enumerate(outputs)}
