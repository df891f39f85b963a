"""ExecuTorch: PyTorch's runtime for phones, with XNNPACK's kernels for their CPUs."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

from .fixed_size import export_fixed, split_by_slices


@dataclass(frozen=True)
class Delegation:
    """How much of a program XNNPACK runs; the portable kernels do the rest.

    Args:
        delegated: Operators that XNNPACK runs.
        portable: Operators that it does not, without the bookkeeping of tuples.
        subgraphs: Pieces that XNNPACK's part is cut into.
        portable_names: Names of the operators that are left, each once.
    """

    delegated: int
    portable: int
    subgraphs: int
    portable_names: tuple[str, ...]

    @property
    def share(self) -> float:
        return self.delegated / max(self.delegated + self.portable, 1)

    def __str__(self) -> str:
        left = ', '.join(self.portable_names) or 'none'
        return (
            f'XNNPACK runs {self.delegated} of {self.delegated + self.portable} operators '
            f'({self.share:.0%}) in {self.subgraphs} pieces; left: {left}'
        )


def to_executorch(graph: nn.Module, example: Tensor, out: str | os.PathLike) -> Delegation:
    """Lower a graph at one input size to a program of ExecuTorch with XNNPACK.

    Args:
        graph: From images to a tuple of tensors, in eval mode.
        example: Images (B, 3, H, W) of the size of the program.
        out: Path that ends in ``.pte``.

    Raises:
        UserError: If executorch is not installed, or an operator has no kernel.
    """
    exir = require('executorch.exir', 'Writing .pte')
    partition = require('executorch.backends.xnnpack.partition.xnnpack_partitioner', 'Writing .pte')
    folding = require('executorch.exir.passes.constant_prop_pass', 'Writing .pte')
    program = export_fixed(graph, example, 'ExecuTorch')
    split_by_slices(program)
    with quiet():
        # biases by distance are looked up in a table: at one size they are constants
        program = folding.constant_prop_pass(program.run_decompositions({}))
        lowered = exir.to_edge_transform_and_lower(
            program, partitioner=[partition.XnnpackPartitioner()]
        )
        delegation = count(lowered.exported_program().graph_module)
        buffer = lowered.to_executorch().buffer
    Path(out).write_bytes(buffer)
    return delegation


def count(module: torch.fx.GraphModule) -> Delegation:
    """Count what the partitioner took and what it left."""
    backend_debug = require('executorch.devtools.backend_debug', 'Writing .pte')
    info = backend_debug.get_delegation_info(module)
    left = {
        name: row.non_delegated
        for name, row in info.delegation_by_operator.items()
        if row.non_delegated and name != 'getitem'
    }
    return Delegation(
        delegated=info.num_delegated_nodes,
        portable=sum(left.values()),
        subgraphs=info.num_delegated_subgraphs,
        portable_names=tuple(sorted(left)),
    )


def run_executorch(path: str | os.PathLike, images: Tensor) -> tuple[Tensor, ...]:
    """Outputs of a program, computed here by ExecuTorch's runtime.

    Raises:
        UserError: If executorch is not installed, or the images are not of the program's size.
    """
    runtime = require('executorch.runtime', 'Reading .pte')
    method = runtime.Runtime.get().load_program(str(path)).load_method('forward')
    size = tuple(method.metadata.input_tensor_meta(0).sizes())
    if size != tuple(images.shape):
        raise UserError(f'{path} takes images of shape {size}, not {tuple(images.shape)}')
    # the outputs lie in the memory of the method, which the next call writes again
    return tuple(output.clone() for output in method.execute([images]))
