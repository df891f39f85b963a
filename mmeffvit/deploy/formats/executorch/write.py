"""ExecuTorch, PyTorch's runtime for phones, with XNNPACK's CPU kernels."""

from collections.abc import Sequence
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
        notes = describe(lowered.exported_program().graph_module)
        buffer = lowered.to_executorch().buffer
    path.write_bytes(buffer)
    return notes


def describe(module: torch.fx.GraphModule) -> str:
    """The part of a program that XNNPACK runs; portable kernels run the rest."""
    backend_debug = require('executorch.devtools.backend_debug', 'Writing .pte')
    info = backend_debug.get_delegation_info(module)
    portable = {
        name: row.non_delegated
        for name, row in info.delegation_by_operator.items()
        if row.non_delegated and name != 'getitem'
    }
    delegated = info.num_delegated_nodes
    total = delegated + sum(portable.values())
    share = delegated / max(total, 1)
    others = ', '.join(sorted(portable)) or 'none'
    return (
        f'XNNPACK runs {delegated} of {total} operators ({share:.0%}) in '
        f'{info.num_delegated_subgraphs} partitions; others: {others}'
    )
