"""Candidates on a GPU: the ONNX file in ONNX Runtime, and the PyTorch model."""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from importlib.util import find_spec

import torch

from mmeffvit.deploy.compare import FLOAT, HALF, Expect, Images
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.errors import UserError
from mmeffvit.utils.onnx import GPU, INSTALL, has_cuda

from .candidates import Candidate, Entry, attempt, checked
from .pytorch import open_graph

ONNX, PYTORCH = 'ONNX Runtime CUDA', 'PyTorch CUDA'


def find_gpu(device: str) -> str | None:
    """The GPU to measure on, if any.

    Args:
        device: 'auto', 'cpu', 'cuda' or 'cuda:N'.

    Raises:
        UserError: If it is not the name of a GPU, or no GPU can be used.
    """
    if device == 'cpu':
        return None
    seen = torch.cuda.is_available() or (find_spec('onnxruntime') is not None and has_cuda())
    if device == 'auto':
        return 'cuda' if seen else None
    if not GPU.fullmatch(device):
        raise UserError(f'--device is {device!r}; choose from auto, cpu, cuda, cuda:N')
    if not seen:
        raise UserError(
            f'--device {device}: torch {torch.__version__} finds no GPU, and ONNX Runtime is '
            f'built without CUDA: `{INSTALL}`'
        )
    return device


def gpu_name(devices: Iterable[str]) -> str:
    """Name of the GPU among devices, if torch knows it; empty if there is none."""
    known = torch.cuda.get_device_name if torch.cuda.is_available() else str
    return ', '.join(known(each) for each in devices if each != 'cpu')


def on_gpu(
    device: str,
    floats: Mapping[str, Candidate],
    expect: Expect,
    images: Images,
    graph: Graph | None,
) -> Iterator[Entry]:
    """The ONNX file, if one agrees on the CPU, and the PyTorch model, if given, on a GPU."""
    if (base := floats.get('.onnx')) is not None:
        make = partial(onnx_file, base, device, expect, images)
        yield attempt(ONNX, 'float32', make)
    if graph is None:
        return
    for precision in ('float32', 'float16'):
        make = partial(pytorch_model, graph, device, precision, expect, images)
        yield attempt(PYTORCH, precision, make)


def onnx_file(base: Candidate, device: str, expect: Expect, images: Images) -> Candidate:
    found = checked(open_model(base.path, device=device).run, expect, [images], FLOAT)
    return Candidate(ONNX, 'float32', base.path, *found, device=device)


def pytorch_model(
    graph: Graph, device: str, precision: str, expect: Expect, images: Images
) -> Candidate:
    half = precision == 'float16'
    # a copy, since the device and the memory format of the graph change
    run = open_graph(deepcopy(graph), device, half=half).run
    found = checked(run, expect, [images], HALF if half else FLOAT)
    return Candidate(PYTORCH, precision, None, *found, device=device, graph=graph)
