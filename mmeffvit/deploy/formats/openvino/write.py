"""OpenVINO, Intel's runtime for CPUs, GPUs and NPUs, from the ONNX file."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmeffvit.deploy.formats.base import Export
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import first_line

from .open import METADATA


def write(export: Export, path: Path) -> str:
    from mmeffvit.deploy.formats.onnx.write import export_graph  # with torch

    with tempfile.TemporaryDirectory() as folder:
        onnx_path = Path(folder, 'graph.onnx')
        export_graph(export.part, onnx_path, export.options, export.metadata)
        to_openvino(onnx_path, path, half=export.half)
    return f'weights in {path.with_suffix(".bin").name}'


def convert_onnx(path: str | os.PathLike) -> Any:
    """An ONNX file as an ``openvino.Model``.

    The conversion also fuses activations such as SiLU, which OpenVINO's reader of ONNX files leaves
    in parts until a model is compiled: too late for a quantizer, which would quantize the parts.
    """
    openvino = require('openvino', 'Writing .xml')
    with quiet():
        return openvino.convert_model(str(path))


def to_openvino(
    onnx_path: str | os.PathLike, out: str | os.PathLike, *, half: bool = False
) -> None:
    """Convert an ONNX file to OpenVINO's IR: ``out``, and its weights in ``.bin``.

    The metadata of the ONNX file are stored in the runtime information, under ``mmeffvit``;
    ``half`` stores the weights as float16, in half the space.
    """
    content = require('onnx', 'Reading .onnx').load(str(onnx_path), load_external_data=False)
    metadata = {entry.key: entry.value for entry in content.metadata_props}
    save_openvino(convert_onnx(onnx_path), out, metadata, half=half)


def save_openvino(
    model: Any, out: str | os.PathLike, metadata: Mapping[str, str], *, half: bool = False
) -> None:
    """Write an ``openvino.Model`` with its metadata; UserError if OpenVINO cannot write it."""
    openvino = require('openvino', 'Writing .xml')
    for name, value in metadata.items():
        model.set_rt_info(value, [METADATA, name])
    try:
        openvino.save_model(model, out, compress_to_fp16=half)
    except RuntimeError as error:  # it does not say that a disk is full
        raise UserError(
            f'{Path(out).name} cannot be written: is the disk full? ({first_line(error)})'
        ) from error
