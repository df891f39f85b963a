"""Loops over variants and configs: one of each kind by default, all with ``--all-variants``."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def sampled(values: Sequence, kept: Collection) -> list[ParameterSet]:
    """The values as parameters; those not in ``kept`` run with ``--all-variants`` alone."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if value in kept else pytest.mark.variant,
        )
        for value in values
    ]


def check_all(values: Collection[Any], check: Callable[[Any], None]) -> None:
    """One test for many cheap items: all of them are checked, and all that fail are named."""
    assert values, 'there is nothing to check'
    faults = []
    for value in values:
        try:
            check(value)
        except AssertionError as error:
            faults.append(f'{value}: {error}')
    assert not faults, '\n'.join(faults)
