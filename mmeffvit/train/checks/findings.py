"""Findings of the checks."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any


class Kind(Enum):
    """Type of a finding; the value is printed."""

    PASSED = 'passed'
    NOTE = 'note'
    UNCHECKED = 'not checked'
    FAULT = 'error'


@dataclass(frozen=True)
class Finding:
    """One line of a report."""

    kind: Kind
    text: str  # names and values; for a fault also the fix, with the choices
    # dotted key of the config and its value, if the fix has no choices
    fix: tuple[str, Any] | None = None

    def __str__(self) -> str:
        return f'{self.kind.value}: {self.text}'


passed, note, unchecked, fault = (
    partial(Finding, kind) for kind in (Kind.PASSED, Kind.NOTE, Kind.UNCHECKED, Kind.FAULT)
)
