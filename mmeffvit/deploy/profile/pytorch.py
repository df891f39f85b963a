"""A model in PyTorch, opened as a file of another runtime is, and the GPU that runs it."""

from importlib.util import find_spec

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mmeffvit.deploy.formats.onnx.open import GPU, INSTALL, has_cuda
from mmeffvit.deploy.graphs.base import Graph, named
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError


def find_gpu(device: str) -> str | None:
    """The GPU to measure on, if any; ``device`` is 'auto', 'cpu', 'cuda' or 'cuda:N'.

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


def gpu_name(device: str) -> str:
    """Name of a GPU, if torch knows it."""
    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else device


def open_graph(graph: Graph, device: str, *, half: bool = False) -> Session:
    """A graph in PyTorch, which is moved to the device; ``half`` runs the network in float16.

    A run begins with the images and ends with the outputs in the memory of the host, like
    runs of other runtimes; copying the outputs also waits for the GPU.
    """
    graph.to(device)
    if half:
        graph.to(memory_format=torch.channels_last)
        for name, module in graph.network.named_modules():
            if name.endswith('_head'):  # its outputs are processed in float32
                module.register_forward_hook(lambda _, x, y: tree_map_only(Tensor, single, y))

    def run(images: NDArray) -> dict[str, NDArray]:
        with (
            torch.inference_mode(),
            torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False),
            torch.autocast(torch.device(device).type, torch.float16, enabled=half),
        ):
            values = graph(torch.from_numpy(images).to(device))
        return named(graph, map(single, values))

    return Session((None, 3, None, None), graph.output_names, {}, run)


def single(value: Tensor) -> Tensor:
    return value.float() if value.dtype == torch.float16 else value
