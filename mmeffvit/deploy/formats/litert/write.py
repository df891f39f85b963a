"""LiteRT, formerly TensorFlow Lite, the runtime of Android phones, through litert-torch."""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.fixed_size import fixed_module
from mmeffvit.deploy.runtime.sessions import INPUT
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

from .open import save_litert

MAX_RANK = 4  # axes of a tensor on a GPU delegate

# Operators of LiteRT's GPU delegate: NewOperationParser in tflite/delegates/gpu/common/
# model_builder.cc of google-ai-edge/LiteRT, at 34ec5ba.
GPU_OPERATORS = frozenset(
    """
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D COS CUMSUM DENSIFY
    DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD
    FULLY_CONNECTED GATHER GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOG
    LOGICAL_AND LOGISTIC LSTM MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL ONE_HOT
    PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SELECT SELECT_V2 SIGN SIN
    SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM
    TANH TILE TRANSPOSE TRANSPOSE_CONV UNPACK
    """.split()  # noqa: SIM905
)


class ChannelsLast(nn.Module):
    """A module with images and maps as (B, H, W, C), and its outputs by name."""

    def __init__(self, module: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.module = module
        self.names = names
        self.training = False  # an exported module rejects eval()

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        values = self.module(images.permute(0, 3, 1, 2))
        return {
            name: value.permute(0, 2, 3, 1) if value.ndim == 4 else value
            for name, value in zip(self.names, values, strict=True)
        }


def write(export: Export, path: Path) -> str:
    return to_litert(export, path, export.described(layout='BHWC float32'))


def to_litert(export: Export, out: str | os.PathLike, metadata: Mapping[str, str]) -> str:
    """Convert a graph with a fixed input size to LiteRT; returns notes on its operators.

    The input is called ``images``, (1, H, W, 3); maps are (1, H, W, C). The metadata are appended
    as a ZIP archive, like TensorFlow Lite's metadata: ``zipfile`` or ``unzip`` reads
    ``metadata.json`` and, for a model with classes, ``labels.txt``.

    Raises:
        UserError: If litert-torch is not installed, or an operator cannot be converted.
    """
    tools = require('litert_torch', 'Writing .tflite')
    graph, example = export.part, export.example
    module = ChannelsLast(fixed_module(graph, example, 'LiteRT'), graph.output_names)
    images = example.permute(0, 2, 3, 1).contiguous()
    try:
        with torch.no_grad(), quiet():
            model = tools.convert(module, sample_kwargs={INPUT: images})
    except Exception as error:  # of litert_torch, torch, jax or MLIR
        reason = ' '.join(str(error).split())
        raise UserError(f'the model cannot be converted to LiteRT: {reason:.300}') from error
    save_litert(out, model.model_content(), metadata)
    operators, rejected = count_operators(out)
    total, left = operators.total(), rejected.total()
    others = ', '.join(f'{count} {name}' for name, count in sorted(rejected.items()))
    return f'a GPU delegate takes {total - left} of {total} operators; others: {others or 0}'


def count_operators(path: str | os.PathLike) -> tuple[Counter[str], Counter[str]]:
    """Count the operators of a file by name: all, and those that a GPU delegate does not run.

    The latter are not in GPU_OPERATORS, or have a tensor of more than four axes.
    """
    schema = require('ai_edge_litert.schema_py_generated', 'Reading .tflite')
    codes = {code: name for name, code in vars(schema.BuiltinOperator).items() if name.isupper()}
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(Path(path).read_bytes()))
    operators: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for graph in model.subgraphs:
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex]
            name = code.customCode or codes[max(code.builtinCode, code.deprecatedBuiltinCode)]
            name = name.decode() if isinstance(name, bytes) else name
            tensors = (*operator.inputs, *operator.outputs)
            rank = max(len(graph.tensors[i].shape) for i in tensors if i >= 0)
            operators[name] += 1
            if name not in GPU_OPERATORS or rank > MAX_RANK:
                rejected[name if rank <= MAX_RANK else f'{name} with {rank} axes'] += 1
    return operators, rejected
