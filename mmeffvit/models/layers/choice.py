"""Layers and sizes chosen by name in a config, with their arguments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, TypeVar

from torch import nn

Row = TypeVar('Row')

Choice = str | Mapping[str, Any]  # a name, or a dict of it as ``type`` and of arguments


def choose(
    attention: Choice,
    choices: Mapping[str, Callable[..., nn.Module | None]],
    argument: str = 'attention',
) -> partial:
    """The chosen layer with its own arguments, to be called with sizes.

    Args:
        attention: A name in ``choices``, or a dict of such a name as ``type`` and of arguments of
            its class.
        choices: Classes by name, with one signature: sizes, followed by arguments of their own,
            which have defaults.
        argument: Name of the argument in messages.

    Raises:
        ValueError: If the name is unknown, or the class has no such argument.
    """
    own = dict(attention) if isinstance(attention, Mapping) else dict(type=attention)
    name = own.pop('type', None)
    if not isinstance(name, str) or name not in choices:
        raise ValueError(f'{argument} is {name or attention!r}; choose one of {tuple(choices)}')
    parameters = signature(choices[name]).parameters.values()
    accepted = [each.name for each in parameters if each.default is not each.empty]
    unknown = [f'{key} is {value!r}' for key, value in own.items() if key not in accepted]
    if unknown:
        takes = ', '.join(accepted) or 'no arguments'
        raise ValueError(f'{", ".join(unknown)}: {argument}={name!r} takes {takes}')
    return partial(choices[name], **own)


def resolve_row(
    given: str | Mapping[str, Any], table: Mapping[str, Row], argument: str = 'arch'
) -> Row:
    """Return the row of ``table`` that is named, or given by its fields.

    Args:
        given: A name in ``table``; a dict of one as ``type`` and of changed fields; or a dict with
            all fields of a row.
        table: Rows of one dataclass by name.
        argument: Name of the argument in messages.

    Raises:
        ValueError: If the name is unknown, or a field is unknown or missing.
    """
    own = dict(type=given) if isinstance(given, str) else given
    fields = set(next(iter(table.values())).__dataclass_fields__)
    if not isinstance(own, Mapping) or not (set(own) == fields or 'type' in own):
        raise ValueError(
            f'{argument} is {given!r}; give a name or a dict with exactly {sorted(fields)}'
        )
    own = {name: _frozen(value) for name, value in own.items()}
    name = own.pop('type', next(iter(table)))
    if name not in table:
        raise ValueError(f'{argument} is {name!r}; choose one of {", ".join(map(repr, table))}')
    if not set(own) <= fields:
        raise ValueError(f'{argument} is {given!r}; change only {sorted(fields)}')
    for key, value in own.items():
        released = getattr(table[name], key)
        if isinstance(value, tuple) != isinstance(released, tuple) or value is None:
            raise ValueError(f'{argument} has {key} {value!r}; give it like {released!r}')
    return replace(table[name], **own)


def _frozen(value: Any) -> Any:
    """Convert lists of a config to the tuples of the table."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value
