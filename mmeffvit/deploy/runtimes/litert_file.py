"""Files of LiteRT: their metadata, and running them. Without torch, as on the target."""

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
METADATA = 'metadata.json'  # in the ZIP archive at the end of the file
LABELS = 'labels.txt'


def write_litert(out: str | os.PathLike, model: bytes, metadata: Mapping[str, str]) -> None:
    """Write a model with its metadata."""
    Path(out).write_bytes(model)
    with zipfile.ZipFile(out, 'a') as archive:
        archive.writestr(METADATA, json.dumps(dict(metadata)))
        if 'classes' in metadata:
            archive.writestr(LABELS, '\n'.join(json.loads(metadata['classes'])))


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata of a file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(METADATA))


class LiteRT:
    """A file, or its bytes, run by LiteRT on the CPU.

    Args:
        model: The file or its content.
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
