"""Optional packages, imported on demand."""

import shlex
import sys
import threading
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType

from mmeffvit.errors import UserError

from .files import PACKAGE
from .quiet import quiet
from .text import first_line

EXTRAS = {  # of our package, by the package that they install; others are installed by name
    'torch': 'det,seg', 'mmengine': 'det,seg', 'mmdet': 'det', 'mmcv': 'det', 'mmseg': 'seg',
    'mmpretrain': 'cls', 'onnx': 'onnx', 'onnxruntime': 'onnx', 'onnxscript': 'onnx',
    'openvino': 'openvino', 'nncf': 'int8', 'executorch': 'executorch', 'coremltools': 'coreml',
    'litert_torch': 'litert', 'ai_edge_litert': 'litert', 'ai_edge_quantizer': 'litert',
    'pnnx': 'ncnn', 'ncnn': 'ncnn', 'safetensors': 'hub', 'huggingface_hub': 'hub',
}  # fmt: skip

# mmpretrain 1.2 cannot be imported beside later ones, and mmdet imports it where it is installed
OLD_TRANSFORMERS = "pip install 'transformers<4.56'"

# OpenVINO and NNCF send usage data from forked processes that can keep the program from ending;
# without this module they send nothing
TELEMETRY = {'openvino': 'openvino_telemetry', 'nncf': 'openvino_telemetry'}

_first_import = threading.RLock()  # output is suppressed in the whole process, so by one at a time


def require(name: str, purpose: str = '') -> ModuleType:
    """Import a module of an optional package, or report how to install it.

    Args:
        name: Full name of the module. 'mmcv.ops' fails if its operators do not match the installed
            torch, 'mmdet.models' if mmpretrain does not match the installed transformers.
        purpose: What needs it, the beginning of the message; if given, output during the import is
            suppressed.

    Raises:
        UserError: If it is not installed or cannot be imported; the message has the command that
            installs it.
    """
    package = name.partition('.')[0]
    if package in TELEMETRY:
        sys.modules.setdefault(TELEMETRY[package], None)  # its import fails
    try:
        with _first_import, nullcontext() if name in sys.modules or not purpose else quiet():
            return import_module(name)
    except (ImportError, AssertionError, OSError, RuntimeError, TypeError) as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        reason = first_line(error) or type(error).__name__
        state = 'is not installed' if absent else f'does not work in this environment ({reason})'
        what = f'{purpose} needs {package}, which' if purpose else package
        # its language models inherit from a class that newer versions have moved
        is_too_new = isinstance(error, TypeError) and package in ('mmdet', 'mmpretrain')
        cure = OLD_TRANSFORMERS if is_too_new else install_command(package)
        raise UserError(f'{what} {state}: `{cure}`') from error


def install_command(package: str) -> str:
    """The command that installs a package, with the path of the checkout if this is one."""
    if package not in EXTRAS:
        return f'pip install {package}'
    target = f"'mmeffvit[{EXTRAS[package]}]'"
    if (PACKAGE.parent / 'setup.py').is_file():
        target = f'-e {shlex.quote(f"{PACKAGE.parent}[{EXTRAS[package]}]")}'
    # one that was compiled for another torch is removed before
    return f'{"pip uninstall --yes mmcv; " * (package == "mmcv")}pip install {target}'
