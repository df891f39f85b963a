"""``python -m benchmarks public [bccd] [camvid]``: ours and peers from scratch on public data."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from mmeffvit.cli.output import exit_with_message
from mmeffvit.errors import UserError

from ..machine import ROOT, describe, folder_name
from ..store import Rows, rounded
from .compare import entries, measure
from .contenders import CONTENDERS
from .data import SETS, Located, locate
from .files import latency, macs
from .report import grouped, write_report


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m benchmarks public', description=__doc__)
    parser.add_argument('sets', nargs='*', metavar='SET', help=f'{", ".join(SETS)} (default: all)')
    parser.add_argument(
        '--data', type=Path, default=ROOT / 'data', metavar='DIR', help='folder of the sets'
    )
    parser.add_argument(
        '--minutes', type=int, nargs='+', default=[20], metavar='N', help='CPU minutes to train'
    )
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2], metavar='SEED')
    names = ', '.join(dict.fromkeys(contender.name for contender in CONTENDERS))
    parser.add_argument(
        '--only', nargs='+', default=[], metavar='NAME', help=f'{names} (default: all)'
    )
    parser.add_argument('--jobs', type=int, default=2, metavar='N', help='trainings at a time')
    parser.add_argument(
        '--out-dir',
        dest='out',
        type=Path,
        metavar='DIR',
        help='default: benchmarks/results/MACHINE',
    )
    parser.add_argument(
        '--work-dir', type=Path, metavar='DIR', help='default: work_dirs/benchmarks'
    )
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')
    args = parser.parse_args(arguments)
    with exit_with_message(args.debug):
        return compare(args)


def compare(args: argparse.Namespace) -> int:
    """Measure what is missing, time the exported files, and write the report."""
    for name in args.sets:
        if name not in SETS:
            raise UserError(f'{name!r} is not a public dataset; choose {", ".join(SETS)}')
    found = [locate(name, args.data) for name in args.sets or SETS]
    machine = describe('cpu', 'processor')
    out = args.out or ROOT / 'benchmarks' / 'results' / folder_name(machine)
    work = args.work_dir or ROOT / 'work_dirs' / 'benchmarks' / 'public'
    rows = Rows(out / 'public.json', machine)
    failed = measure(
        list(entries(found, args.only, args.minutes, args.seeds)), rows, work, args.jobs
    )
    for each in found:
        time_files(each, rows, work)
    print(f'report: {write_report(out, machine, rows.rows)}')
    return int(failed > 0)


def time_files(found: Located, rows: Rows, work: Path) -> None:
    """Add the row of MACs and latencies of the files of the longest run of each contender."""
    files, sizes, counts = {}, {}, {}
    for (name, minutes), group in sorted(grouped(rows.rows).get(found.name, {}).items()):
        contender = next(c for c in CONTENDERS if (c.name, c.task) == (name, found.about.task))
        folder = work / found.name / f'{name}_{minutes}_{group[0]["seed"]}'
        sizes[name] = contender.padded(found.about.shape)
        for kind in ('float', 'int8'):
            if kind in group[0]:
                files[f'{name} {kind}'] = (folder / group[0][kind]['file'], sizes[name])
        if 'float' in group[0]:
            counts[name] = macs(files[f'{name} float'][0], sizes[name])
    if files:
        seconds = rounded(latency(files, seconds=20.0 * len(files)))
        rows.add(f'{found.name}, files', dict(seconds=seconds, sizes=sizes, macs=counts))
