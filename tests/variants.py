"""Loops over variants and configs: one of each kind by default, all with ``--all-variants``."""

from collections.abc import Collection, Sequence

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
