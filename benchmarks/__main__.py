"""``python -m benchmarks [PART ...]``: run benchmarks and write the report."""

import argparse
import os
import sys
from pathlib import Path

# read by torch on import
os.environ['OMP_NUM_THREADS'] = '1'
os.environ.setdefault('KINETO_LOG_LEVEL', '5')  # suppresses messages of the profiler

import torch

from mmeffvit.cli.output import exit_with_message
from mmeffvit.errors import UserError

from .machine import ROOT, describe, folder_name
from .part import CLOCKS, Settings
from .parts import PARTS, run_part, say
from .report import write_report
from .store import Rows


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m benchmarks', description=__doc__)
    parser.add_argument(
        'parts', nargs='*', metavar='PART', help=f'{", ".join(PARTS)}, or report (default: all)'
    )
    parser.add_argument('--device', choices=('cpu', 'cuda'), default='cpu')
    parser.add_argument(
        '--quick', action='store_true', help='smoke test; its numbers are not meaningful'
    )
    parser.add_argument(
        '--clock',
        choices=CLOCKS,
        default='wall',
        help='processor: CPU time of the process, for a shared machine',
    )
    parser.add_argument('--fresh', action='store_true', help='repeat finished measurements')
    parser.add_argument(
        '--out-dir',
        dest='out',
        type=Path,
        metavar='DIR',
        help='output folder (default: benchmarks/results/MACHINE, with --quick '
        'work_dirs/benchmarks/MACHINE)',
    )
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')
    args = parser.parse_args()
    with exit_with_message(args.debug):
        settings = Settings(args.device, args.quick, args.clock)
        return measure(args.parts, settings, args.out, fresh=args.fresh)


def measure(names: list[str], settings: Settings, out: Path | None, *, fresh: bool) -> int:
    """Run the parts, and write the report on all results in the folder.

    Raises:
        UserError: If a part is unknown, or cannot run on the device.
    """
    chosen = choose(names, settings)
    torch.set_num_threads(1)  # as ONNX Runtime here
    machine = describe(settings.device, settings.clock)
    base = ROOT / ('work_dirs/benchmarks' if settings.quick else 'benchmarks/results')
    folder = out or base / folder_name(machine)
    failed = 0
    for name in chosen:
        rows = Rows(folder / f'{name}.json', machine, fresh=fresh)
        failed += run_part(name, PARTS[name], settings, rows)
    say(f'report: {write_report(folder)}')
    if failed:
        say(f'{failed} rows failed; run the same command again to retry them')
    return int(failed > 0)


def choose(names: list[str], settings: Settings) -> list[str]:
    """The parts to run; only 'report' selects none."""
    device = settings.device
    if device == 'cuda' and settings.clock != 'wall':
        raise UserError('--clock processor does not measure a GPU; omit it')
    if device == 'cuda' and not torch.cuda.is_available():
        raise UserError('--device cuda: torch finds no GPU; choose --device cpu')
    possible = [n for n, part in PARTS.items() if device in getattr(part, 'DEVICES', ('cpu',))]
    for name in names:
        if name != 'report' and name not in possible:
            raise UserError(
                f'{name!r} is not a part for {device}; choose {", ".join(possible)} or report'
            )
    return [name for name in names if name != 'report'] if names else possible


if __name__ == '__main__':
    if sys.argv[1:2] == ['public']:
        from .public.main import main as public

        sys.exit(public(sys.argv[2:]))
    sys.exit(main())
