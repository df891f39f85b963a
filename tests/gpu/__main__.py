"""``make gpu``: the tests that need a GPU, as a Markdown table of items, results and seconds."""

import contextlib
import sys
from pathlib import Path

import pytest
import torch


class Table:
    """Collects the results of the tests, for :func:`main`."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, name = report.nodeid.split('::', 1)
        result, seconds = self.rows.get(name, ('', 0.0))
        if report.skipped:
            result = 'skipped: ' + report.longrepr[2].removeprefix('Skipped: ')
        elif report.failed or not result:
            result = report.outcome
        self.rows[name] = (result, seconds + report.duration)


def main() -> int:
    """Run the tests, with pytest's output on stderr, and print the table; 1 if one failed."""
    table = Table()
    with contextlib.redirect_stdout(sys.stderr):
        folder = str(Path(__file__).parent)
        code = pytest.main(
            [folder, '-m', 'gpu', '--all-variants', '-q', '-p', 'no:cacheprovider'], [table]
        )
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'
    print(f'torch {torch.__version__}, {gpu}\n')
    print('| item | result | seconds |\n|---|---|---|')
    for name, (result, seconds) in table.rows.items():
        item = name.removeprefix('test_').replace('_', ' ')
        print(f'| {item} | {result} | {seconds:.1f} |')
    return int(code)


if __name__ == '__main__':
    sys.exit(main())
