"""``make learn``: the long overfitting runs of all heads, as a Markdown table."""

import contextlib
import sys
import tempfile
import time
from pathlib import Path

from tests.learning.cases import CASES
from tests.learning.overfit import overfit


def main() -> int:
    """Run the cases and print a row after each; the exit code is 1 if one is below its minimum."""
    missed = False
    print('| head | config | iterations | seconds | metric | reached | floor | |')
    print('|---|---|---|---|---|---|---|---|', flush=True)
    for case in CASES:
        row = f'| {case.head} | {case.config_name} | {case.long_iterations} '
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            value = overfit(case, Path(folder), iterations=case.long_iterations)
        row += f'| {time.monotonic() - start:.0f} | {case.metric} | {value:.3g} | {case.floor:g} '
        missed |= value < case.floor
        print(f'{row}| {"missed" if value < case.floor else "reached"} |', flush=True)
    return int(missed)


if __name__ == '__main__':
    sys.exit(main())
