"""Report AP (detectors) or IoU (segmentors) of every class."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmeffvit.analysis.per_class import per_class, to_markdown

from ..arguments import MODEL, add_config, new_parser, output_folder


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'analyze per-class configs/retinanet_shvit_s4.py found.pkl')
    add = parser.add_argument
    add_config(parser, MODEL)
    add('results', type=Path,
        help='predictions of `mmeffvit test --out` or `mmeffvit predict --out`')  # fmt: skip
    add('--out-dir', type=output_folder, metavar='FOLDER',
        help='output folder (default: the folder of the results)')  # fmt: skip
    return parser


def run(config: str, results: Path, out_dir: Path | None, cfg_options: Mapping[str, Any]) -> None:
    out_dir = out_dir or results.parent
    print(to_markdown(per_class(config, results, out_dir, cfg_options)), end='')
    print(f'{out_dir / "per_class.md"}, {out_dir / "per_class.png"}')
