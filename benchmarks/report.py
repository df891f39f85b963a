"""The Markdown report on the measurements of a machine."""

from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file

from .part import Rows, Target, table
from .parts import PARTS
from .store import read

HOW = (
    'The candidates of a row ran interleaved (A, B, C, A, B, C) in one process and one thread, '
    'after a warm-up, without garbage collection. Times are medians, with the minimum over the '
    'rounds in parentheses. A ratio such as "ours : timm" is the speedup of ours: the ratio of the '
    'medians, with the first and the last decile of the per-round ratios in parentheses.'
)


def write_report(folder: Path) -> Path:
    """Write ``README.md`` and the plots to ``folder``, from its JSON files, and return the path.

    Raises:
        UserError: If there are no measurements.
    """
    contents = {
        name: read(folder / f'{name}.json') for name in PARTS if (folder / f'{name}.json').is_file()
    }
    if not contents:
        raise UserError(f'{folder} has no measurements; parts are {", ".join(PARTS)}')
    machine = next(iter(contents.values()))['machine']
    rows = {name: content['rows'] for name, content in contents.items()}
    for name, measured in rows.items():
        if hasattr(PARTS[name], 'draw'):
            PARTS[name].draw(measured, folder)
    path = folder / 'README.md'
    write_file(path, markdown(machine, rows))
    return path


def markdown(machine: dict[str, str], parts: dict[str, Rows]) -> str:
    """The report: machine, targets, and one section per part."""
    lines = ['# Benchmark', '', *table(['machine', ''], machine.items()), '', HOW]
    found: list[Target] = []
    sections: list[str] = []
    for name, rows in parts.items():
        part = PARTS[name]
        found += part.targets(rows) if hasattr(part, 'targets') else []
        sections += ['', f'## {part.TITLE}', '', *part.render(rows), '', *provenance(rows)]
    if found:
        lines += ['', '## Targets', '', *map(str, found)]
    return '\n'.join([*lines, *sections]) + '\n'


def provenance(rows: Rows) -> list[str]:
    """Dates, commits, load of the machine, and failed rows."""
    commits = sorted({row['commit'] for row in rows.values()})
    days = sorted({row['date'][:10] for row in rows.values()})
    load = max((row['load'] for row in rows.values()), default=0)
    lines = [
        f'Measured on {", ".join(days)} at commit {", ".join(commits)} (+: with local changes); '
        f'highest load average after a row {load}.'
    ]
    failed = [f'- {key} failed: {row["error"]}' for key, row in rows.items() if 'error' in row]
    return [*lines, '', *failed] if failed else lines
