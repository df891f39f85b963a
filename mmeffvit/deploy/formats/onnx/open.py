"""Sessions of ONNX Runtime on the CPU or on a GPU, without its silent fallback to the CPU."""

import ctypes
import os
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import reason

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ERRORS = 3  # lowest severity that is logged: unknown shapes are warnings
WARNINGS, FATAL = 2, 4
CUDA = 'CUDAExecutionProvider'
GPU = re.compile(r'cuda(:(\d+))?')  # as torch calls it
INSTALL = 'pip uninstall --yes onnxruntime; pip install onnxruntime-gpu'  # one folder for both


def load(path: Path, threads: int, *, device: str, **_: Any) -> Session:
    return open_onnx(path, threads, device)


def open_onnx(model: str | os.PathLike | bytes, threads: int = 0, device: str = 'cpu') -> Session:
    """Load a file, or its bytes, with all graph optimizations; 0 threads are one per core.

    Raises:
        UserError: If onnxruntime is not installed, or cannot use the device.
    """
    runtime = require('onnxruntime', 'Running ONNX')
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = ERRORS
    source = model if isinstance(model, bytes) else str(model)
    if device == 'cpu':
        session = runtime.InferenceSession(source, options, providers=['CPUExecutionProvider'])
    else:
        session = open_on_gpu(runtime, source, options, device)
    inputs = session.get_inputs()
    shape = tuple(inputs[0].shape) if [each.type for each in inputs] == ['tensor(float)'] else ()
    names = tuple(output.name for output in session.get_outputs())

    def run(images: NDArray) -> dict[str, NDArray]:
        values = session.run(names, {inputs[0].name: images})
        return dict(zip(names, values, strict=True))

    return Session(shape, names, dict(session.get_modelmeta().custom_metadata_map), run)


def open_on_gpu(
    runtime: ModuleType, source: str | bytes, options: Any, device: str
) -> 'InferenceSession':
    """Load a file on a GPU, or raise an error where ONNX Runtime would silently use the CPU."""
    if (found := GPU.fullmatch(device)) is None:
        raise UserError(f'device {device!r} cannot be used: give cpu, cuda or cuda:N')
    if not has_cuda():
        raise UserError(
            f'onnxruntime {runtime.__version__} is built without CUDA, which {device} needs: '
            f'`{INSTALL}`'
        )
    # TensorFloat-32 has 10 bits of float32's 23
    provider = (CUDA, {'device_id': found[2] or '0', 'use_tf32': '0'})
    runtime.set_default_logger_severity(FATAL)
    try:
        if hasattr(runtime, 'preload_dlls'):  # since 1.21: of packages that torch installs
            with quiet():
                runtime.preload_dlls()
        session = runtime.InferenceSession(source, options, [provider], enable_fallback=0)
    except RuntimeError as error:  # of the driver; those of invalid files are of other classes
        raise UserError(f'ONNX Runtime cannot use {device} ({reason(error)})') from error
    finally:
        runtime.set_default_logger_severity(WARNINGS)
    if session.get_providers()[0] != CUDA:
        raise UserError(
            f'ONNX Runtime would run on the CPU instead of {device}: {missing_library(runtime)}; '
            f'onnxruntime-gpu {runtime.__version__} needs a GPU, its driver and the libraries of '
            "CUDA: `pip install 'onnxruntime-gpu[cuda,cudnn]'`"
        )
    return session


def has_cuda() -> bool:
    """Whether the installed ONNX Runtime is built for CUDA; a GPU may be missing."""
    return CUDA in require('onnxruntime', 'Running ONNX').get_available_providers()


def missing_library(runtime: ModuleType) -> str:
    """Why the CUDA library of ONNX Runtime does not load."""
    try:
        ctypes.CDLL(str(Path(runtime.__file__).parent / 'capi/libonnxruntime_providers_cuda.so'))
    except OSError as error:
        return str(error)
    return 'its part for CUDA loads, but not on this GPU'
