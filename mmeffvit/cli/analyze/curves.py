"""Plot losses, learning rate and validation metrics of runs."""

from argparse import ArgumentParser
from pathlib import Path

from mmeffvit.analysis.curves import plot_curves

from ..arguments import new_parser, output_file


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'analyze curves work_dirs/maskrcnn_swiftformer_l1')
    add = parser.add_argument
    add('work_dirs', nargs='+', type=Path, metavar='WORK_DIR',
        help='work dirs; several are overlaid')  # fmt: skip
    add('--out', type=output_file, metavar='FILE.png',
        help='output file (default: curves.png in the first work dir)')  # fmt: skip
    return parser


def run(work_dirs: list[Path], out: Path | None) -> None:
    out = out or work_dirs[0] / 'curves.png'
    plot_curves(work_dirs, out)
    print(out)
