"""Measured rows in a JSON file, which is saved after every row."""

import json
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file

Row = dict[str, Any]


class Rows:
    """The rows of one part, by key, in the order of measurement.

    Args:
        path: The file; its rows are read if it exists.
        machine: Description of the machine.
        fresh: Ignore existing rows of the file.

    Raises:
        UserError: If the file is damaged, or was measured on another machine.
    """

    def __init__(self, path: Path, machine: dict[str, str], *, fresh: bool = False) -> None:
        self.path = path
        self.machine = machine
        self.rows: dict[str, Row] = {}
        if path.is_file() and not fresh:
            content = read(path)
            different = [
                f'{key} {content["machine"].get(key)}, now {machine.get(key)}'
                for key in sorted({*content['machine'], *machine})
                if content['machine'].get(key) != machine.get(key)
            ]
            if different:
                raise UserError(
                    f'{path} was measured with {"; ".join(different)}: use --fresh to start over, '
                    'or --out-dir FOLDER for another folder'
                )
            self.rows = content['rows']

    def has(self, key: str) -> bool:
        """Whether the row was measured; failed rows are retried."""
        return key in self.rows and 'error' not in self.rows[key]

    def add(self, key: str, row: Row) -> None:
        self.rows.pop(key, None)
        self.rows[key] = row
        write_file(self.path, str(self))

    def __str__(self) -> str:
        """JSON with one line per row, for readable diffs."""
        lines = [f'  {json.dumps(key)}: {json.dumps(row)}' for key, row in self.rows.items()]
        rows = ',\n'.join(lines)
        return f'{{\n "machine": {json.dumps(self.machine)},\n "rows": {{\n{rows}\n }}\n}}\n'


def read(path: Path) -> dict[str, Any]:
    """The content of a file of rows.

    Raises:
        UserError: If it is invalid.
    """
    try:
        content = json.loads(path.read_text())
        content['machine'].items(), content['rows'].items()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'{path} has no valid measurements ({error!r}): move it away') from error
    return content


def rounded(samples: dict[str, list[float]]) -> dict[str, list[float]]:
    """Times in seconds with five significant digits."""
    return {name: [float(f'{t:.5g}') for t in times] for name, times in samples.items()}
