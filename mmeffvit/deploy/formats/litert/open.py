"""LiteRT, formerly TensorFlow Lite, the runtime of Android phones."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.runtime.sessions import INPUT, Session, check_images
from mmeffvit.utils.files import parse_json
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

METADATA, LABELS = 'metadata.json', 'labels.txt'  # in the ZIP archive at the end of a file
MAX_METADATA = 2**26  # bytes, unpacked


def load(path: Path, threads: int, **_: Any) -> Session:
    return open_litert(path, threads)


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
        with zipfile.ZipFile(model) as archive, archive.open(METADATA) as file:
            metadata = parse_json(file.read(MAX_METADATA), str(model))
    return Session(shape, tuple(runner.get_output_details()), metadata, run)


def save_litert(out: str | os.PathLike, model: bytes, metadata: Mapping[str, str]) -> None:
    """Write a LiteRT model with its metadata."""
    Path(out).write_bytes(model)
    with zipfile.ZipFile(out, 'a') as archive:
        archive.writestr(METADATA, json.dumps(dict(metadata)))
        if 'classes' in metadata:
            archive.writestr(LABELS, '\n'.join(json.loads(metadata['classes'])))
