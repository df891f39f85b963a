"""Build the training set of PASCAL VOC 2012 and COCO 2017 with the 21 classes of VOC."""

from argparse import ArgumentParser
from pathlib import Path

from mmeffvit.data.voc_coco import prepare_voc_coco

from .arguments import add_out_dir, new_parser


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'prepare-voc-coco --coco data/coco --voc data/VOCdevkit/VOC2012')
    add = parser.add_argument
    add('--coco', type=Path, default=Path('data/coco'), help='folder of COCO 2017')
    add(
        '--voc',
        type=Path,
        default=Path('data/VOCdevkit/VOC2012'),
        help='folder of PASCAL VOC 2012 with SegmentationClassAug',
    )
    add_out_dir(parser, 'data/voc12_coco')
    return parser


def run(coco: Path, voc: Path, out: Path) -> None:
    written = prepare_voc_coco(coco, voc, out)
    print(f'{written} label maps written; DATA_ROOT={out} for training')
