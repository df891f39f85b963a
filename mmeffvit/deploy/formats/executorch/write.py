"""ExecuTorch, PyTorch's runtime for phones, with XNNPACK's CPU kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.fixed_size import ATEN, export_fixed
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet


def slices(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    ends = accumulate(sizes)
    return [x.narrow(dim, end - size, size) for size, end in zip(sizes, ends, strict=True)]


# XNNPACK supports slices, but no splits
DECOMPOSITIONS = {ATEN.split_with_sizes.default: slices, ATEN.split.sizes: slices}


@dataclass(frozen=True)
class Delegation:
    """The part of a program that XNNPACK runs; portable kernels run the rest."""

    delegated: int  # number of operators that XNNPACK runs
    portable: Mapping[str, int]  # number of other operators by name, without ``getitem``
    subgraphs: int  # number of XNNPACK partitions

    @property
    def share(self) -> float:
        return self.delegated / max(self.total, 1)

    @property
    def total(self) -> int:
        return self.delegated + sum(self.portable.values())

    def __str__(self) -> str:
        others = ', '.join(sorted(self.portable)) or 'none'
        return (
            f'XNNPACK runs {self.delegated} of {self.total} operators '
            f'({self.share:.0%}) in {self.subgraphs} partitions; others: {others}'
        )


def write(export: Export, path: Path) -> str:
    """Lower a graph with a fixed input size to an ExecuTorch program with XNNPACK, in ``.pte``.

    Raises:
        UserError: If executorch is not installed, or an operator has no kernel.
    """
    exir = require('executorch.exir', 'Writing .pte')
    partition = require('executorch.backends.xnnpack.partition.xnnpack_partitioner', 'Writing .pte')
    folding = require('executorch.exir.passes.constant_prop_pass', 'Writing .pte')
    program = export_fixed(export.part, export.example, 'ExecuTorch')
    with quiet():
        # position biases are looked up in a table: at a fixed size they are constants
        program = folding.constant_prop_pass(program.run_decompositions(DECOMPOSITIONS))
        lowered = exir.to_edge_transform_and_lower(
            program, partitioner=[partition.XnnpackPartitioner()]
        )
        delegation = count(lowered.exported_program().graph_module)
        buffer = lowered.to_executorch().buffer
    path.write_bytes(buffer)
    return str(delegation)


def count(module: torch.fx.GraphModule) -> Delegation:
    backend_debug = require('executorch.devtools.backend_debug', 'Writing .pte')
    info = backend_debug.get_delegation_info(module)
    left = {
        name: row.non_delegated
        for name, row in info.delegation_by_operator.items()
        if row.non_delegated and name != 'getitem'
    }
    return Delegation(info.num_delegated_nodes, left, info.num_delegated_subgraphs)
