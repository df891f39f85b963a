#!/usr/bin/env python
"""Make the training set of PASCAL VOC 2012 and COCO 2017 from the folders of the two."""

import argparse
from pathlib import Path

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.datasets.voc_coco import prepare_voc_coco


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--coco', type=Path, default=Path('data/coco'), help='COCO 2017')
    parser.add_argument(
        '--voc',
        type=Path,
        default=Path('data/VOCdevkit/VOC2012'),
        help='PASCAL VOC 2012 with SegmentationClassAug',
    )
    parser.add_argument('--out', type=Path, default=Path('data/voc12_coco'), help='folder to make')
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        written = prepare_voc_coco(args.coco, args.voc, args.out)
        print(f'{written} label maps written; DATA_ROOT={args.out} for training')


if __name__ == '__main__':
    main()
