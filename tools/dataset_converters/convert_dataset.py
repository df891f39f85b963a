#!/usr/bin/env python
"""Convert a dataset to COCO format or to label maps.

Reads all formats that `mmeffvit train` reads, see docs/data.md. The dataset is neither copied
nor changed.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.cli.arguments import (
    add_folders,
    add_reading,
    new_parser,
    output_folder,
    run_tool,
    take,
)
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.utils.text import counted


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'convert_dataset.py data/bolts data/bolts_coco', '')
    parser.add_argument('data', type=Path, help='dataset: folder, data.yaml or JSON file')
    parser.add_argument('out', type=output_folder, help='output folder')
    parser.add_argument('--label-maps', dest='for_segmentor', action='store_true',
                        help='write label maps (PNG) instead of COCO files')  # fmt: skip
    parser.add_argument('--seed', type=int, default=0, help='random seed of the validation split')
    add_reading(parser)
    add_folders(parser)
    return parser


def run(data: Path, out: Path, **values: Any) -> None:
    _, splits = prepare(data, out, PrepareOptions(**take(values, PrepareOptions)))
    for split in splits.values():
        images = counted(split.count, 'image')
        print(f'{split.annotations}: {images}, names relative to {split.images}')


if __name__ == '__main__':
    run_tool(sys.modules[__name__])
