"""Parameters and MACs of the parts of a model, in rows that add up to the total."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from mmeffvit.utils.modules import forwards

# torch counts attention on a GPU and on the meta device, but not its kernel for a CPU
UNCOUNTED = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value)
    )
}
LISTED = ('backbone', 'roi_head')  # modules whose children have their own rows


@dataclass
class Part:
    """A module of the model: one row of the table."""

    name: str
    parameters: int = 0
    trainable: int = 0  # parameters that require a gradient
    macs: int = 0  # of one forward pass on one image
    ran: bool = False  # in that pass


def count_modules(model: nn.Module, forward: Callable[[nn.Module], Any]) -> dict[str, int]:
    """MACs of every module that ran in ``forward(model)``, without its submodules'."""
    own: dict[str, int] = {}
    active = ['']
    settled = 0

    def settle() -> None:
        """Assign the operations since the last call to the running module."""
        nonlocal settled
        flops = counter.get_total_flops()
        own[active[-1]] = own.get(active[-1], 0) + (flops - settled) // 2
        settled = flops

    def counting(name: str, module: nn.Module) -> Callable:
        run = module.forward

        def counted(*args: Any, **kwargs: Any) -> Any:
            settle()
            active.append(name)
            try:
                return run(*args, **kwargs)
            finally:
                settle()
                active.pop()

        return counted

    with ExitStack() as stack:
        named = [(name, module) for name, module in model.named_modules() if name]
        stack.enter_context(forwards(named, counting))
        for parameter in model.parameters():  # torch's counter fails if they require gradients
            stack.callback(parameter.requires_grad_, parameter.requires_grad)
            parameter.requires_grad_(False)
        stack.enter_context(torch.no_grad())
        counter = stack.enter_context(FlopCounterMode(display=False, custom_mapping=UNCOUNTED))
        forward(model)
        settle()
    return own


def make_parts(model: nn.Module, own: dict[str, int]) -> list[Part]:
    """The rows with parameters or MACs, for the output of :func:`count_modules`."""
    parts = {name: Part(name) for name in part_names(model)}
    parts['other'] = Part('other')
    for name, parameter in model.named_parameters():
        part = parts[owner(name, parts)]
        part.parameters += parameter.numel()
        part.trainable += parameter.numel() * parameter.requires_grad
    for name, macs in own.items():
        part = parts[owner(name, parts)]
        part.macs += macs
        part.ran = True
    return [part for part in parts.values() if part.parameters or part.macs]


def part_names(module: nn.Module, prefix: str = '') -> Iterator[str]:
    """Names of the parts; lists such as stages or cascade heads give the names of their items."""
    for name, child in module.named_children():
        if prefix + name in LISTED:
            yield from part_names(child, f'{name}.')
        elif isinstance(child, nn.ModuleList):
            yield from (f'{prefix}{name}.{index}' for index in range(len(child)))
        else:
            yield prefix + name


def owner(name: str, parts: dict[str, Part]) -> str:
    """The part that a module or a parameter belongs to."""
    while name and name not in parts:
        name = name.rpartition('.')[0]
    return name or 'other'
