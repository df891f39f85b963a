"""OpenVINO, Intel's runtime for CPUs, GPUs and NPUs, from the ONNX file."""

import os

from numpy.typing import NDArray

from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

METADATA = 'mmeffvit'  # key of the ONNX file's metadata in the IR


def to_openvino(
    onnx_path: str | os.PathLike, out: str | os.PathLike, *, half: bool = False
) -> None:
    """Convert an ONNX file to OpenVINO's IR: ``out``, and its weights in ``.bin``.

    The metadata of the ONNX file are stored in the runtime information, under ``mmeffvit``.

    Args:
        onnx_path: An exported file, with dynamic or fixed sizes.
        out: Path that ends in ``.xml``.
        half: Store the weights as float16, in half the space.

    Raises:
        UserError: If openvino is not installed.
    """
    openvino = require('openvino', 'Writing .xml')
    with quiet():
        model = openvino.convert_model(str(onnx_path))
    for name, value in _metadata(onnx_path).items():
        model.set_rt_info(value, [METADATA, name])
    openvino.save_model(model, out, compress_to_fp16=half)


def run_openvino(path: str | os.PathLike, images: NDArray) -> dict[str, NDArray]:
    """Outputs of an IR by name, on the CPU in float32.

    Raises:
        UserError: If openvino is not installed.
    """
    openvino = require('openvino', 'Reading .xml')
    # CPUs with bfloat16 support would use it
    model = openvino.compile_model(str(path), 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    results = model({'images': images})
    return {output.get_any_name(): results[output] for output in model.outputs}


def _metadata(onnx_path: str | os.PathLike) -> dict[str, str]:
    onnx = require('onnx', 'Reading .onnx')
    model = onnx.load(str(onnx_path), load_external_data=False)
    return {entry.key: entry.value for entry in model.metadata_props}
