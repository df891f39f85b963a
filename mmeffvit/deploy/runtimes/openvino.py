"""OpenVINO: Intel's runtime for CPUs, GPUs and NPUs, from the ONNX file."""

import os
from collections.abc import Mapping
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS, largest_error, object_agreement
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.optional import quietly, require

TOLERANCE = 1e-3  # in float32, of the largest value of an output
HALF_TOLERANCE = 2e-2  # weights of 11 bits
METADATA = 'mmeffvit'  # where the metadata of the ONNX file lie in the IR


def to_openvino(
    onnx_path: str | os.PathLike,
    out: str | os.PathLike,
    images: NDArray,
    expected: Mapping[str, NDArray],
    *,
    half: bool = False,
) -> None:
    """Convert an ONNX file to OpenVINO's IR: ``out`` and, beside it, its weights in ``.bin``.

    The metadata of the ONNX file go into the runtime information, under ``mmeffvit``. Both files
    appear only after the converted model gave the expected outputs on the CPU.

    Args:
        onnx_path: File written by the export, for any size or a fixed one.
        out: Path that ends in ``.xml``.
        images: (B, 3, H, W) float32 to try the model on.
        expected: Its outputs on them by name, of the eager model or of onnxruntime.
        half: Keep the weights as float16, in half the space.

    Raises:
        UserError: If openvino is not installed, or the outputs are others.
    """
    openvino = require('openvino', 'Writing .xml')
    with quietly():
        model = openvino.convert_model(str(onnx_path))
    for name, value in _metadata(onnx_path).items():
        model.set_rt_info(value, [METADATA, name])
    with atomic_output(Path(out)) as partial:  # its weights, beside it, take their place first
        openvino.save_model(model, partial, compress_to_fp16=half)
        check(run_openvino(partial, images), expected, HALF_TOLERANCE if half else TOLERANCE)


def run_openvino(path: str | os.PathLike, images: NDArray) -> dict[str, NDArray]:
    """Outputs of an IR on the CPU, in float32, by name.

    Raises:
        UserError: If openvino is not installed.
    """
    openvino = require('openvino', 'Reading .xml')
    # CPUs with bfloat16 would compute in it
    model = openvino.compile_model(str(path), 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    results = model({'images': images})
    return {output.get_any_name(): results[output] for output in model.outputs}


def check(found: Mapping[str, NDArray], expected: Mapping[str, NDArray], tolerance: float) -> None:
    """Refuse a converted model whose outputs are others.

    Objects with nearly equal scores may change places: they are paired by label and box first.

    Raises:
        UserError: If an output is missing, or differs by more than the tolerance.
    """
    if set(found) != set(expected):
        raise UserError(f'the converted model gives {sorted(found)}, not {sorted(expected)}')
    if set(OBJECTS) <= set(expected):
        measures = [
            object_agreement([_nth(expected, i)], [_nth(found, i)], score_thr=0.01)
            for i in range(len(expected['boxes']))
        ]
        for image in measures:
            # the first and the last are nan where the image has no object
            if (
                image['found again'] < 0.98
                or image['new objects'] > 0.02 * image['objects']
                or image['largest drift of a score'] > 10 * tolerance
            ):
                raise UserError(f'the converted model finds other objects: {image}')
        return
    for name, value in expected.items():
        error = largest_error(value, found[name])
        if not error <= tolerance:
            raise UserError(
                f'output {name!r} of the converted model differs by {error:.2g} of its largest '
                f'value, more than {tolerance}; the file is not written'
            )


def _nth(outputs: Mapping[str, NDArray], index: int) -> dict[str, NDArray]:
    return {name: outputs[name][index : index + 1] for name in OBJECTS}


def _metadata(onnx_path: str | os.PathLike) -> dict[str, str]:
    onnx = require('onnx', 'Reading .onnx')
    model = onnx.load(str(onnx_path), load_external_data=False)
    return {entry.key: entry.value for entry in model.metadata_props}
