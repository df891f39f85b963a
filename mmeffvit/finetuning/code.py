"""Values of a config as readable code."""

from typing import Any

from mmeffvit.config.beside import literal

WIDTH = 96


class Code(str):
    """An expression that is written unchanged."""

    __slots__ = ()


def to_code(value: Any, indent: int = 0, before: int = 0) -> str:
    """The code of a value, with ``dict(key=...)``, broken into lines that are not too long.

    Args:
        value: Dicts, lists, tuples, numbers and strings.
        indent: Indentation of the lines.
        before: Characters before the first line.
    """
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, dict):
        start, end = 'dict(', ')'
        items = [(f'{key}=', item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        start, end = '[]' if isinstance(value, list) else '()'
        items = [('', item) for item in value]
    else:
        return literal(value)
    comma = ',' if isinstance(value, tuple) and len(value) == 1 else ''
    line = (
        start + ', '.join(name + to_code(item, 0, -(10**6)) for name, item in items) + comma + end
    )
    if indent + before + len(line) <= WIDTH or not items:
        return line
    pad = ' ' * (indent + 4)
    rows = [f'{pad}{name}{to_code(item, indent + 4, len(name) + 1)},' for name, item in items]
    return '\n'.join([start, *rows, ' ' * indent + end])


def comment(text: str) -> str:
    return f'# {literal(text)[1:-1]}'


def assign(name: str, value: Any) -> str:
    return f'{name} = {to_code(value, 0, len(name) + 3)}'
