"""A layer chosen by name in a config, with its arguments."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from torch import nn

Choice = str | Mapping[str, Any]  # a name, or a dict of it as ``type`` and of arguments


def choose(
    attention: Choice,
    choices: Mapping[str, Callable[..., nn.Module | None]],
    num_sizes: int = 1,
    argument: str = 'attention',
) -> partial:
    """The chosen layer with its own arguments, to be called with sizes.

    Args:
        attention: A name in ``choices``, or a dict of such a name as ``type`` and of arguments of
            its class.
        choices: Classes by name, with one signature: sizes, followed by arguments of their own.
        num_sizes: Number of sizes, which the caller of the result gives.
        argument: Name of the argument in messages.

    Raises:
        ValueError: If the name is unknown, or the class has no such argument.
    """
    own = dict(attention) if isinstance(attention, Mapping) else dict(type=attention)
    name = own.pop('type', None)
    if name not in choices:
        raise ValueError(f'{argument} is {name or attention!r}; choose one of {tuple(choices)}')
    accepted = list(signature(choices[name]).parameters)[num_sizes:]
    unknown = [f'{key} is {value!r}' for key, value in own.items() if key not in accepted]
    if unknown:
        takes = ', '.join(accepted) or 'no arguments'
        raise ValueError(f'{", ".join(unknown)}: {argument}={name!r} takes {takes}')
    return partial(choices[name], **own)
