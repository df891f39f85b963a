"""Packages that only some jobs need: looked for when something needs them, never at import."""

from contextlib import nullcontext
from importlib import import_module
from types import ModuleType

from mmeffvit.errors import UserError

from .quiet import quiet

CURES = {  # by package
    'mmdet': "pip install 'mmeffvit[det]'",
    'mmseg': "pip install 'mmeffvit[seg]'",
    'mmcv': "pip install 'setuptools<82' wheel ninja && "
    "MMCV_WITH_OPS=1 pip install --no-build-isolation --no-binary mmcv 'mmcv>=2.0.0,<2.2.0'",
    'onnx': "pip install 'mmeffvit[onnx]'",
    'onnxruntime': "pip install 'mmeffvit[onnx]'",
    'onnxscript': "pip install 'mmeffvit[onnx]'",
    'openvino': "pip install 'mmeffvit[openvino]'",
    'executorch': "pip install 'mmeffvit[executorch]'",
    'coremltools': "pip install 'mmeffvit[coreml]'",
    'safetensors': "pip install 'mmeffvit[hub]'",
    'huggingface_hub': "pip install 'mmeffvit[hub]'",
    'supervision': 'pip install supervision',
}


def require(name: str, purpose: str = '') -> ModuleType:
    """Import a module of an optional package, or say how to install it.

    Args:
        name: Of the module, with its package: a row of :data:`CURES`. For mmcv, ask for
            'mmcv.ops', which fails where its operators do not fit the installed torch.
        purpose: What needs it, in words that begin the message; what the package prints at its
            import is held back then.

    Raises:
        UserError: If it is not installed, or does not load; the message has the command.
    """
    package = name.partition('.')[0]
    try:
        with quiet() if purpose else nullcontext():
            return import_module(name)
    except (ImportError, AssertionError, OSError) as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        state = 'is not installed' if absent else f'does not work in this environment ({reason})'
        what = f'{purpose} needs {package}, which' if purpose else package
        raise UserError(f'{what} {state}: `{CURES[package]}`') from error
