"""Make the training set of PASCAL VOC 2012 and COCO 2017 from the folders of the two."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from mmeffvit.datasets.voc_coco import prepare_voc_coco

from .arguments import new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__)
    parser.add_argument('--coco', type=Path, default=Path('data/coco'), help='COCO 2017')
    parser.add_argument(
        '--voc',
        type=Path,
        default=Path('data/VOCdevkit/VOC2012'),
        help='PASCAL VOC 2012 with SegmentationClassAug',
    )
    parser.add_argument('--out', type=Path, default=Path('data/voc12_coco'), help='folder to make')
    return parser


def run(coco: Path, voc: Path, out: Path) -> None:
    written = prepare_voc_coco(coco, voc, out)
    print(f'{written} label maps written; DATA_ROOT={out} for training')


def main(argv: Sequence[str] | None = None) -> None:
    run_command(make_parser(), run, argv)
