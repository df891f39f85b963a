"""One of several processes that train every family with ``fully_shard``, and save the result."""

import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.models.test_contract import TINIEST, build, total

STEPS = 2


def images() -> Tensor:
    """Two batches for each of two processes."""
    return torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1)).double()


def make(family: str, arch: str | float | dict) -> nn.Module:
    torch.manual_seed(0)
    return build(family, arch).double().train()


def step(backbone: nn.Module, batches: Sequence[Tensor]) -> list[float]:
    """A step of SGD on the mean of the losses of the batches, which it returns."""
    losses = [total(backbone(batch)) for batch in batches]
    torch.stack(losses).mean().backward()
    torch.optim.SGD(backbone.parameters(), lr=0.01).step()
    backbone.zero_grad()
    return [loss.item() for loss in losses]


def train_sharded(family: str, arch: str | float | dict, batch: Tensor) -> dict:
    backbone = make(family, arch)
    for stage in backbone.stages:
        fully_shard(stage)
    fully_shard(backbone)
    losses = [step(backbone, [batch]) for _ in range(STEPS)]
    parameters = dict(backbone.named_parameters())
    assert all(isinstance(parameter, DTensor) for parameter in parameters.values())
    whole = {name: parameter.full_tensor() for name, parameter in parameters.items()}
    return dict(losses=losses, parameters={n: p.detach() for n, p in whole.items()})


if __name__ == '__main__':
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    batch = images().split(2)[rank]
    found = {family: train_sharded(family, arch, batch) for family, arch in TINIEST}
    torch.save(found, f'{sys.argv[1]}/{rank}.pth')
    dist.destroy_process_group()
