"""A layer chosen by name in a config, with its arguments."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from torch import nn

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)  # of a class without __init__
SIZES = ('channels', 'value_channels')  # known where a layer is built


def choose(
    attention: str | Mapping[str, Any], choices: Mapping[str, Callable[..., nn.Module]]
) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
    """The class of an attention layer among ``choices``, and its arguments.

    Args:
        attention: A name in ``choices``, or a dict of such a name as ``type`` and of arguments of
            its class.
        choices: Classes by name.

    Raises:
        ValueError: If the name is unknown, or the class has no such argument.
    """
    own = dict(attention) if isinstance(attention, Mapping) else dict(type=attention)
    name = own.pop('type', None)
    if name not in choices:
        raise ValueError(f'attention is {name or attention!r}; choose one of {tuple(choices)}')
    parameters = signature(choices[name]).parameters.values()
    accepted = [p.name for p in parameters if p.name not in SIZES and p.kind not in VARIADIC]
    unknown = [f'{key} is {value!r}' for key, value in own.items() if key not in accepted]
    if unknown:
        takes = ', '.join(accepted) or 'no arguments'
        raise ValueError(f'{", ".join(unknown)}: attention={name!r} takes {takes}')
    return choices[name], own
