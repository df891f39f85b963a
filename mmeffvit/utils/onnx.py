"""Sessions of ONNX Runtime on the CPU."""

import os
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from mmeffvit.errors import UserError

from .optional import require
from .text import reason

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ERRORS = 3  # lowest severity that is logged: unknown shapes are warnings


def open_session(
    model: str | os.PathLike | bytes, threads: int = 0, trace: str | os.PathLike = ''
) -> 'InferenceSession':
    """Load a file, or its bytes, with all graph optimizations.

    Args:
        model: The file, or its content.
        threads: Number of threads; 0 for one per core.
        trace: Beginning of the path of a trace with the time of every node, if given; written by
            the session's ``end_profiling``.

    Raises:
        UserError: If onnxruntime is not installed.
    """
    runtime = require('onnxruntime', 'Running ONNX')
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = ERRORS
    if trace:
        options.enable_profiling = True
        options.profile_file_prefix = str(trace)
    source = model if isinstance(model, bytes) else str(model)
    return runtime.InferenceSession(source, options, providers=['CPUExecutionProvider'])


def run_session(session: 'InferenceSession', images: NDArray) -> dict[str, NDArray]:
    """Outputs by name for images (B, 3, H, W)."""
    names = [output.name for output in session.get_outputs()]
    try:
        values = session.run(names, {session.get_inputs()[0].name: images})
    except Exception as error:  # onnxruntime has a dozen of its own
        raise UserError(
            f'the model does not run on images of {images.shape} ({reason(error)})'
        ) from error
    return dict(zip(names, values, strict=True))


def read_metadata(model: str | os.PathLike) -> dict[str, str]:
    """Metadata of a file, strings by name.

    Raises:
        UserError: If onnx is not installed.
    """
    onnx = require('onnx', 'Reading .onnx')
    content = onnx.load(str(model), load_external_data=False)
    return {entry.key: entry.value for entry in content.metadata_props}
