"""Schemas of untrusted files: a table of keys, types and ranges per kind of file."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from numbers import Integral
from typing import Any

from mmeffvit.errors import UserError

from .text import name_fault

MAX_NAMES = 100_000


@dataclass(frozen=True)
class Field:
    """A value of a file, by its dotted key."""

    key: str
    is_valid: Callable[[Any], bool]  # not called with None
    requirement: str  # in words
    required: bool = False  # must be present and not None


def check_fields(
    content: Any, fields: Iterable[Field], source: object, error: type[UserError] = UserError
) -> None:
    """Check the values of a file.

    Raises:
        UserError: If one is invalid, or a required one is missing; ``error`` is its class.
    """
    for field in fields:
        value = content
        for part in field.key.split('.'):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            if field.required:
                raise error(f'{source}: it lacks {field.key}, {field.requirement}')
        elif not field.is_valid(value):
            raise error(f'{source}: {field.key} is {value!r:.80}; it must be {field.requirement}')


def is_dict(value: Any) -> bool:
    return isinstance(value, Mapping)


def is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and -inf < value < inf


def integer_from(minimum: int, maximum: float = inf) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and minimum <= value <= maximum


def number_from(minimum: float, maximum: float) -> Callable[[Any], bool]:
    return lambda value: is_number(value) and minimum <= value <= maximum


def are_names(value: Any) -> bool:
    """Whether these are names of classes."""
    return is_list(value) and len(value) <= MAX_NAMES and not any(map(name_fault, value))


def is_palette(value: Any) -> bool:
    """Whether it is a list of colors, of three integers from 0 to 255 each."""
    return is_list(value) and len(value) <= MAX_NAMES and all(map(_is_color, value))


def _is_color(value: Any) -> bool:
    # also integers of NumPy, as in checkpoints
    return (
        is_list(value)
        and len(value) == 3
        and all(isinstance(part, Integral) and 0 <= part <= 255 for part in value)
    )
