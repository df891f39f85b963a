"""Modules of torch: selected by name, run by another function, and the values that they expect."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError

from .quiet import replaced

T = TypeVar('T')


def select(named: Mapping[str, T], patterns: Sequence[str]) -> dict[str, T]:
    """The items whose dotted name, or a part of it, matches a pattern; all if there is none.

    In patterns, `*` and `?` are wildcards.

    Raises:
        UserError: If a pattern matches no name.
    """
    for pattern in patterns:
        if not any(matches(name, pattern) for name in named):
            raise UserError(f'no layer matches {pattern!r}; choose from {", ".join(named)}')
    if not patterns:
        return dict(named)
    return {n: item for n, item in named.items() if any(matches(n, p) for p in patterns)}


def outermost(named: Mapping[str, T]) -> dict[str, T]:
    """The items that are not inside another one, by their dotted names."""
    inside = {n for n in named for other in named if other and n.startswith(f'{other}.')}
    return {name: item for name, item in named.items() if name not in inside}


def matches(name: str, pattern: str) -> bool:
    parts = name.split('.')
    ends = range(1, len(parts) + 1)
    return any(fnmatchcase('.'.join(parts[i:j]), pattern) for j in ends for i in range(j))


@contextmanager
def forwards(
    modules: Iterable[tuple[str, nn.Module]], wrap: Callable[[str, nn.Module], Callable]
) -> Iterator[None]:
    """Run modules by other functions, also where their ``forward`` is called directly.

    mmdet and mmseg call the ``forward`` of their heads, and hooks of torch do not fire there.
    ``wrap(name, module)`` returns the function that runs instead of a module's ``forward``.
    """
    with ExitStack() as stack:
        for name, module in modules:
            stack.enter_context(replaced(module, 'forward', wrap(name, module)))
        yield


def normalization(preprocessor: nn.Module) -> tuple[Tensor, Tensor, bool]:
    """Mean and deviation, (3, 1, 1), of a data preprocessor, and whether BGR becomes RGB."""
    mean = getattr(preprocessor, 'mean', torch.zeros(3, 1, 1))
    std = getattr(preprocessor, 'std', torch.ones(3, 1, 1))
    # in mmdet, mmseg and mmpretrain
    names = ('_channel_conversion', 'channel_conversion', 'to_rgb')
    return mean, std, any(getattr(preprocessor, name, False) for name in names)
