"""Formatting of messages."""

from collections.abc import Iterable

MAX_REASON = 300  # characters of an error message of another package


def listed(values: Iterable[object], limit: int = 8) -> str:
    """The values separated by commas; a long list ends with the number of remaining values."""
    texts = [str(value) for value in values]
    rest = f' and {len(texts) - limit} more' if len(texts) > limit else ''
    return ', '.join(texts[:limit]) + rest


def reason(error: Exception) -> str:
    """The class of an error and the beginning of its message."""
    message = ' '.join(str(error).split())
    return f'{type(error).__name__}: {message[:MAX_REASON]}' if message else type(error).__name__


def escape(text: str) -> str:
    """The text for a terminal: control characters, which names of files may have, are spelled."""
    return ''.join(c if c.isprintable() or c == '\n' else repr(c)[1:-1] for c in text)
