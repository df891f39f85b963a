"""What a check found."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How a finding is meant; the value is how it is printed."""

    FINE = 'fine'
    NOTE = 'note'
    UNCHECKED = 'not checked'
    FAULT = 'fault'


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    Args:
        kind: How it is meant.
        text: What was found, with names and values; for a fault also the cure, with the choices.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f'{self.kind.value}: {self.text}'


def fine(text: str) -> Finding:
    return Finding(Kind.FINE, text)


def note(text: str) -> Finding:
    return Finding(Kind.NOTE, text)


def unchecked(text: str) -> Finding:
    return Finding(Kind.UNCHECKED, text)


def fault(text: str) -> Finding:
    return Finding(Kind.FAULT, text)
