"""A device that stands in for a GPU: its tensors have their values on the CPU.

Operations check that all tensors are on one device, as CUDA does, and return what the CPU returns.
A tensor that the code creates without a device is found so without a GPU. As on a GPU, a tensor of
this device is no array, and numbers are read of it one by one.

Its name is ``meta``, which torch knows but has no values on: a tensor of it that no operation here
made has no values, and is rejected.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

STAND_IN = torch.device('meta')
NO_VALUES = 'torch itself created a tensor on the device meta'
COPIES = {'aten::copy_', 'aten::_to_copy'}
INDEXED = {'aten::index', 'aten::index_put_', 'aten::index_put', 'aten::_index_put_impl_'}


class StandInTensor(Tensor):
    """A tensor on the stand-in.

    Args:
        values: Its values, on the CPU.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: Tensor) -> 'StandInTensor':
        return Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=STAND_IN,
        )

    def __init__(self, values: Tensor) -> None:
        assert values.device.type == 'cpu', NO_VALUES
        self.values_on_cpu = values

    def __repr__(self) -> str:
        return f'StandInTensor({self.values_on_cpu})'

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: tuple = (), kwargs=None) -> Any:
        return run(operator, args, kwargs or {})

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        device = options.pop('device', None) or STAND_IN
        return torch.tensor(data, **{'dtype': self.dtype, **options}).to(device)

    def tolist(self) -> Any:
        return self.values_on_cpu.tolist()

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(indices(index), value)


class Operators(TorchDispatchMode):
    """Runs the operators that create tensors or copy them to the stand-in."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: tuple = (), kwargs=None) -> Any:
        return run(operator, args, kwargs or {})


def indices(index: Any) -> Any:
    """Make tensors of lists, on the CPU: torch itself would create them on the device."""
    if isinstance(index, tuple):
        return tuple(map(indices, index))
    if isinstance(index, range):
        index = list(index)
    return torch.as_tensor(index) if isinstance(index, list | np.ndarray) else index


@contextmanager
def stand_in() -> Iterator[torch.device]:
    """A block in which tensors can be on the stand-in."""
    with (
        Operators(),
        mock.patch('torch.tensor', partial(create, torch.tensor)),
        mock.patch('torch.as_tensor', partial(create, torch.as_tensor)),
        mock.patch('torch.autocast', return_value=nullcontext()),  # which does not know it
    ):
        yield STAND_IN


def create(function: Callable[..., Tensor], data: Any, **options: Any) -> Tensor:
    """Call ``torch.tensor`` or ``torch.as_tensor``, which are no operators."""
    if is_stand_in(options.get('device')):
        return function(data, **{**options, 'device': 'cpu'}).to(STAND_IN)
    return function(data, **options)


def is_stand_in(device: Any) -> bool:
    return device is not None and torch.device(device) == STAND_IN


def run(operator: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run an operator on the CPU; its results are where the device would have them."""
    name = operator._schema.name
    away = [x for x in tree_leaves((args, kwargs)) if isinstance(x, StandInTensor)]
    if away:
        check_devices(name, args, kwargs)
    device = kwargs.get('device')
    if device is not None:
        kwargs = {**kwargs, 'device': torch.device('cpu')}
        returned_away = is_stand_in(device)
    else:
        returned_away = isinstance(args[0], StandInTensor) if name in COPIES else bool(away)
    found = operator(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
    if not returned_away:
        return found
    wrapped = tree_map(lambda x: StandInTensor(x) if isinstance(x, Tensor) else x, found)
    return return_and_correct_aliasing(operator, args, kwargs, wrapped)


def check_devices(name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    """Check that no tensor is on the CPU, except numbers without dimensions, and indices.

    Raises:
        RuntimeError: If one is.
    """
    if name in COPIES:
        return
    compared = (args[0], *args[2:]) if name in INDEXED else (args, kwargs)
    here = [x for x in tree_leaves(compared) if is_plain(x) and x.dim()]
    if here:
        shapes = ', '.join(str(tuple(x.shape)) for x in here)
        raise RuntimeError(f'{name}: tensors of {shapes} are on the CPU, others on the device')


def is_plain(x: Any) -> bool:
    return isinstance(x, Tensor) and not isinstance(x, StandInTensor)


def on_cpu(x: Any) -> Any:
    if isinstance(x, StandInTensor):
        return x.values_on_cpu
    assert not isinstance(x, Tensor) or x.device.type == 'cpu', NO_VALUES
    return x
