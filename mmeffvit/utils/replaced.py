"""Attributes of other packages' objects that are replaced for a while."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module or an instance, and restore it."""
    is_own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def forwards(
    modules: Iterable[tuple[str, nn.Module]], wrap: Callable[[str, nn.Module], Callable]
) -> Iterator[None]:
    """Run modules by other functions, also where their ``forward`` is called directly.

    mmdet and mmseg call the ``forward`` of their heads, and hooks of torch do not fire there.

    Args:
        modules: Names and modules.
        wrap: Returns the function that runs instead of a module's ``forward``.
    """
    with ExitStack() as stack:
        for name, module in modules:
            stack.enter_context(replaced(module, 'forward', wrap(name, module)))
        yield
