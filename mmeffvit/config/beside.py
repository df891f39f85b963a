"""Write values into a config, as code or in a JSON file beside it.

Names of classes, folders and files are untrusted data. mmengine substitutes ``{{...}}`` in the text
of a config before running it, so such names are never copied into a config unchanged.
"""

import ast
import sys
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json

FORMATTED = 500_000  # characters; yapf takes 10 seconds a million
WIDTH = 96  # characters of a line


def read_beside(file: str, *names: str) -> list[Any]:
    """The values of keys of a JSON file in the folder of the config that calls this.

    Lists are returned as tuples.

    Raises:
        UserError: If the file cannot be read, or lacks a value.
    """
    path = Path(sys._getframe(1).f_code.co_filename).with_name(file)
    values = read_json(path)
    absent = [name for name in names if not isinstance(values, dict) or name not in values]
    if absent:
        raise UserError(f'{path} has no {", ".join(absent)}: write it again with `mmeffvit train`')
    return [tuple(v) if isinstance(v := values[name], list) else v for name in names]


def literal(value: Any) -> str:
    """The Python literal of a value, in which mmengine finds nothing to substitute."""
    return unsubstituted(repr(value))


class Code(str):
    """An expression that is written unchanged."""

    __slots__ = ()


def to_code(value: Any, indent: int = 0, before: int = 0) -> str:
    """The code of a value, in wrapped lines; ``before`` characters precede the first one."""
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


class DictCalls(ast.NodeTransformer):
    """Replaces ``dict(key=...)`` by a literal; a ``ValueError`` for any other call.

    mmengine writes keys that are no names, such as ``backbone.norm``, as ``dict({'key': ...})``.
    """

    def visit_Call(self, node: ast.Call) -> ast.Dict:
        first, *others = node.args or [ast.Dict([], [])]
        is_plain = isinstance(first, ast.Dict) and not others
        is_plain &= all(keyword.arg for keyword in node.keywords)  # not `**`
        if getattr(node.func, 'id', '') != 'dict' or not is_plain:
            raise ValueError(ast.unparse(node))
        self.generic_visit(node)
        keys = [*first.keys, *(ast.Constant(keyword.arg) for keyword in node.keywords)]
        return ast.Dict(keys, [*first.values, *(keyword.value for keyword in node.keywords)])


def assigned_values(text: Any) -> dict[str, Any] | None:
    """The values of a config that only assigns literals; None for others: they are not executed."""
    if not isinstance(text, str):
        return None
    try:
        lines = DictCalls().visit(ast.parse(text)).body
        return {name.id: ast.literal_eval(line.value) for line in lines for name in line.targets}
    # RecursionError and MemoryError come from deep nesting
    except (SyntaxError, AttributeError, TypeError, ValueError, RecursionError, MemoryError):
        return None


def dumped_values(text: Any) -> dict[str, Any] | None:
    """The values of a config as runs save it; None for others.

    mmengine substitutes environment variables, and executes bases, before it executes a text.
    """
    values = None if '{{' in str(text) else assigned_values(text)
    return None if values is None or values.keys() & {'_base_', 'dict'} else values


def unsubstituted(code: str) -> str:
    """The same Python code with ``{{``, which only strings have, spelled as an escape sequence."""
    return code.replace('{{', '{\\x7b')


class LiteralConfig(Config):
    """A config that is unchanged by dumping and reading.

    mmengine's runner writes the text into the work dir and into checkpoints, and mmengine
    substitutes environment variables in what it reads.
    """

    @classmethod
    def of(cls, config: Config) -> 'LiteralConfig':
        """The same config."""
        literal = cls.__new__(cls)
        literal.__setstate__(config.__getstate__())
        return literal

    @property
    def pretty_text(self) -> str:
        """The config as Python code, formatted unless that would take long."""
        if len(str(self._cfg_dict)) > FORMATTED:
            self.__dict__['_format_python_code'] = False
        return unsubstituted(super().pretty_text)
