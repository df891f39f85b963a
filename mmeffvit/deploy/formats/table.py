"""The formats of exported files, by suffix."""

import os
from pathlib import Path

from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError

from .base import Format

FORMATS = (
    Format(
        suffix='.onnx', name='ONNX', runtime='ONNX Runtime', folder='onnx', module='onnxruntime',
        packages=('onnx', 'onnxscript', 'onnxruntime'), runs_on_gpu=True,
        int8_source='.onnx', int8_packages=('onnx', 'onnxruntime'),
    ),
    Format(
        suffix='.xml', name='OpenVINO', runtime='OpenVINO', folder='openvino', module='openvino',
        packages=('onnx', 'onnxscript', 'openvino'), companions=('.bin',), has_half=True,
        half_setting="compile it with {'INFERENCE_PRECISION_HINT': 'f16'}",
        int8_source='.onnx', int8_packages=('openvino', 'nncf'),
    ),
    Format(
        suffix='.pte', name='ExecuTorch with XNNPACK', runtime='ExecuTorch', folder='executorch',
        module='executorch.runtime', packages=('executorch',), is_fixed=True, cut='before_nms',
    ),
    Format(
        suffix='.mlpackage', name='Core ML', runtime='Core ML', folder='coreml', module='',
        packages=('coremltools',), is_fixed=True, cut='for_vision', has_half=True,
    ),
    Format(
        suffix='.tflite', name='LiteRT (TensorFlow Lite)', runtime='LiteRT', folder='litert',
        module='ai_edge_litert', packages=('litert_torch', 'ai_edge_litert'), is_fixed=True,
        cut='without_selection',
        int8_source='.tflite', int8_packages=('ai_edge_litert', 'ai_edge_quantizer'),
    ),
    Format(
        suffix='.param', name='ncnn', runtime='ncnn', folder='ncnn', module='ncnn',
        packages=('pnnx', 'ncnn'), companions=('.bin', '.json'), is_fixed=True,
        cut='without_selection', has_half=True,
        half_setting='set opt.use_fp16_packed, use_fp16_storage and use_fp16_arithmetic',
    ),
)  # fmt: skip
BY_SUFFIX = {each.suffix: each for each in FORMATS}
OPENED = tuple(suffix for suffix, each in BY_SUFFIX.items() if each.module)


def format_of(path: str | os.PathLike) -> Format:
    """The format of a file.

    Raises:
        UserError: If its suffix is unknown.
    """
    suffix = Path(path).suffix
    if suffix not in BY_SUFFIX:
        choices = ', '.join(f'{each.suffix} ({each.name})' for each in BY_SUFFIX.values())
        raise UserError(f'{path} has the suffix {suffix!r}; choose from {choices}')
    return BY_SUFFIX[suffix]


def open_model(
    path: str | os.PathLike, threads: int = 0, *, half: bool = False, device: str = 'cpu'
) -> Session:
    """Load an exported file, see :meth:`.base.Format.open`."""
    return format_of(path).open(Path(path), threads, half=half, device=device)
