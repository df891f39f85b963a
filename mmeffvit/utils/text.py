"""Format messages, and check names of classes."""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from mmeffvit.errors import UserError

MAX_NAME = 200  # characters of the name of a class
UNPRINTABLE = ('Cc', 'Cs', 'Zl', 'Zp')  # control characters, surrogates, line separators
MIN_PART = 3  # characters of a part of a name that suggests the name
NEAREST = 5  # similar names that a message suggests
MAX_REASON = 300  # characters of an error message of another package
MAX_CLASSES, SHOWN_CLASSES = 20, 12  # rows of a table, and of one that would have more


def listed(values: Iterable[object], limit: int = 8) -> str:
    """The values separated by commas; a long list ends with the number of remaining values."""
    texts = [escape(str(value)) for value in values]
    rest = f' and {len(texts) - limit} more' if len(texts) > limit else ''
    return ', '.join(texts[:limit]) + rest


def shortened(name: str, length: int) -> str:
    """A name, or its end after an ellipsis if it has more characters."""
    return name if len(name) <= length else f'...{name[3 - length :]}'


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 image``, ``2,500 images`` or ``3 classes``."""
    ending = '' if number == 1 else 'es' if noun.endswith(('s', 'x', 'sh', 'tch')) else 's'
    return f'{number:,} {noun}{ending}'


def did_you_mean(name: str, choices: Collection[str]) -> str:
    """A question with the choices that contain a name, else with the most similar ones, or ''."""
    lower = name.lower()
    found = [each for each in choices if len(lower) >= MIN_PART and lower in each.lower()]
    found = found or get_close_matches(name, choices, NEAREST)
    return f'did you mean {listed(found)}?' if found else ''


def reason(error: Exception) -> str:
    """The message of a ``UserError``; of another, its class and the beginning of its message."""
    if isinstance(error, UserError):
        return str(error)
    message = ' '.join(str(error).split())
    return f'{type(error).__name__}: {message[:MAX_REASON]}' if message else type(error).__name__


@contextmanager
def as_user_error(message: str) -> Iterator[None]:
    """Raise a ``UserError``, the message and the reason, in place of any other exception.

    For code that raises various ones, such as decoders and runtimes.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f'{message} ({reason(error)})') from error


def first_line(error: BaseException) -> str:
    """The beginning of the first line of the message of an error; may be empty."""
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip()
    return text.partition('\n')[0][:MAX_REASON]


def name_fault(name: object) -> str | None:
    """Why something cannot be the name of a class; None if it can.

    Names are drawn into images, printed, and stored in checkpoints and exported files.
    """
    if not isinstance(name, str):
        return f'is {name!r:.40}, not text'
    if not name.strip():
        return 'is empty'
    if len(name) > MAX_NAME:
        return f'has {len(name):,} characters, and {MAX_NAME} are allowed'
    wrong = next((c for c in name if unicodedata.category(c) in UNPRINTABLE), None)
    return None if wrong is None else f'has the character {wrong!r}, which cannot be printed'


@contextmanager
def without_formulas() -> Iterator[None]:
    """Have matplotlib draw names of classes unchanged: two dollars would make a formula."""
    from matplotlib import rc_context  # slow to import

    with rc_context({'text.parse_math': False}):
        yield


def escape(text: str) -> str:
    """Text for a line of a terminal, such as a file name, with escaped control characters."""
    return ''.join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def check_names(names: object, source: str) -> tuple[str, ...]:
    """Check the list of the names of classes of a file, ``source``.

    Raises:
        UserError: If it is not a list, or one of the names cannot be the name of a class.
    """
    if not isinstance(names, list | tuple):
        raise UserError(f'{source}: classes are {names!r:.80}; give a list of names')
    for number, name in enumerate(names):
        if fault := name_fault(name):
            raise UserError(f'{source}: the name of class {number} {fault}')
    return tuple(names)


def align(rows: Sequence[Sequence[str]], *, numbers: bool = True) -> list[str]:
    """The rows as lines of aligned columns, all but the first on the right for ``numbers``."""
    if not rows:
        return []
    rows = [list(map(escape, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ['<', *('>' if numbers else '<' for _ in widths[1:])]
    layout = '  '.join(f'{{:{side}{width}}}' for side, width in zip(sides, widths, strict=True))
    return [layout.format(*row).rstrip() for row in rows]


def most_frequent(rows: Sequence[Sequence[str]]) -> tuple[list[Sequence[str]], list[str]]:
    """Shorten a table with the name and the counts of every class.

    Returns:
        The rows with the largest first counts, or without one, in their order, and a line on the
        others, if any.
    """
    if len(rows) <= MAX_CLASSES:
        return list(rows), []
    counts = [float(row[1].replace(',', '') or 'inf') for row in rows]
    kept = set(sorted(range(len(rows)), key=lambda i: -counts[i])[:SHOWN_CLASSES])
    rest = f'and {len(rows) - len(kept)} rarer classes (`mmeffvit check --verbose` lists all)'
    return [row for i, row in enumerate(rows) if i in kept], [rest]


def markdown(
    heading: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False
) -> str:
    """A table in Markdown.

    ``numbers`` right-aligns all columns but the first, and pads all cells to the same width.
    """
    rule = ['---', *('---:' if numbers else '---' for _ in heading[1:])]
    lines = [heading, rule, *(list(map(escape, row)) for row in rows)]
    if numbers:
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines]
    return ''.join(f'| {" | ".join(line)} |\n' for line in lines)


def duration(seconds: float) -> str:
    """Such as ``45 s``, ``12 min`` or ``3 h 05 min``."""
    if seconds < 100:
        return f'{seconds:.0f} s'
    minutes = round(seconds / 60)
    return f'{minutes} min' if minutes < 100 else f'{minutes // 60} h {minutes % 60:02} min'
