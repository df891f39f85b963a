"""The results table of a suite, as JSON for programs and as Markdown for people."""

import json
import re
from dataclasses import asdict, dataclass, field
from importlib.metadata import packages_distributions, version
from pathlib import Path
from platform import python_version
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.train.engine.metrics import MEASURED
from mmeffvit.utils.files import read_json, write_file
from mmeffvit.utils.text import markdown
from mmeffvit.version import __version__

STACK = ('torch', 'mmengine', 'mmcv', 'mmdet', 'mmseg')


@dataclass
class Row:
    """One row of the table: a config, its state and its results."""

    config: str
    status: str = 'waiting'  # then 'training', 'testing', and 'done' or 'failed'
    reason: str = ''  # of the failure
    source: str = ''  # of the published metrics
    paper: dict[str, float] = field(default_factory=dict)  # published metrics in percent
    ours: dict[str, float] = field(default_factory=dict)  # in percent
    metrics: dict[str, Any] = field(default_factory=dict)  # all, by their names in mmdet or mmseg
    parameters: int | None = None  # trained and frozen
    work_dir: str = ''
    checkpoint: str = ''  # the tested file
    date: str = ''  # of the test, ISO 8601 with the offset from UTC
    options: dict[str, Any] = field(default_factory=dict)  # that it was started with
    digest: str = ''  # of the settings of the config
    versions: dict[str, str] = field(default_factory=dict)  # of packages, by import name


class Table:
    """The rows of a suite by the name of the config, stored in ``suite.json`` and ``suite.md``."""

    def __init__(self, folder: Path) -> None:
        self.json, self.markdown = folder / 'suite.json', folder / 'suite.md'
        self.rows: dict[str, Row] = {}
        if self.json.is_file():
            try:
                content = read_json(self.json)
                self.rows = {name: Row(**row) for name, row in content.items()}
                str(self)  # raises for values of other types
            except (UserError, AttributeError, TypeError) as error:
                raise UserError(
                    f'{self.json} is not a results table ({error}); move it away'
                ) from error

    def save(self) -> None:
        content = {name: asdict(row) for name, row in self.rows.items()}
        write_file(self.json, json.dumps(content, indent=2))
        write_file(self.markdown, str(self))

    def __str__(self) -> str:
        """The table in Markdown; a cell without a number is empty."""
        found = {metric for row in self.rows.values() for metric in {**row.paper, **row.ours}}
        shown = [name for name, _, _ in MEASURED.values() if name in found]
        heading = ['config', 'status', 'parameters']
        heading += [f'{who} {metric}' for metric in shown for who in ('paper', 'ours')]
        heading += ['published by', 'tested', 'work dir']
        lines = []
        for name, row in self.rows.items():
            parameters = '' if row.parameters is None else f'{row.parameters / 1e6:.2f} M'
            cells = [name, row.status, parameters]
            cells += [f'{v.get(m, "")}' for m in shown for v in (row.paper, row.ours)]
            lines.append(list(map(escaped, [*cells, row.source, row.date[:10], row.work_dir])))
        text = markdown(heading, lines).rstrip()
        return '\n\n'.join(['# Results', text, *self.footnotes()]) + '\n'

    def footnotes(self) -> list[str]:
        """Reasons of failures, and the package versions of each measurement."""
        notes = [
            escaped(f'{name} failed: {row.reason}') for name, row in self.rows.items() if row.reason
        ]
        stacks: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            if row.versions:
                stack = ', '.join(f'{key} {value}' for key, value in row.versions.items())
                stacks.setdefault(escaped(stack), []).append(escaped(name))
        if len(stacks) == 1:
            return [*notes, f'Measured with {next(iter(stacks))}.']
        notes += [f'{", ".join(names)}: measured with {stack}.' for stack, names in stacks.items()]
        return notes


def escaped(text: str) -> str:
    """Untrusted text as one line of Markdown, with all markup escaped."""
    return re.sub(r'([\\`*\[\]|<>&~])', r'\\\1', ' '.join(text.split()))


def stack_versions() -> dict[str, str]:
    """Installed versions by import name; a fork is listed under the name it is imported by."""
    distributions = packages_distributions()
    found = {name: version(distributions[name][0]) for name in STACK if name in distributions}
    return {'python': python_version(), 'mmeffvit': __version__, **found}
