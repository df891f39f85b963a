"""Findings of the checks."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """Type of a finding; the value is printed."""

    PASSED = 'passed'
    NOTE = 'note'
    UNCHECKED = 'not checked'
    FAULT = 'error'


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    Args:
        kind: The type of the finding.
        text: Names and values; for a fault also the fix, with the choices.
        fix: Dotted key of the config and its value, if the fix has no choices.
    """

    kind: Kind
    text: str
    fix: tuple[str, Any] | None = None

    def __str__(self) -> str:
        return f'{self.kind.value}: {self.text}'


def passed(text: str) -> Finding:
    return Finding(Kind.PASSED, text)


def note(text: str) -> Finding:
    return Finding(Kind.NOTE, text)


def unchecked(text: str) -> Finding:
    return Finding(Kind.UNCHECKED, text)


def fault(text: str, fix: tuple[str, Any] | None = None) -> Finding:
    return Finding(Kind.FAULT, text, fix)
