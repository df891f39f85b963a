#!/usr/bin/env python
"""Build the training set of PASCAL VOC 2012 and COCO 2017 with the 21 classes of VOC."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmeffvit.cli.arguments import add_out_dir, new_parser, run_tool
from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.formats.coco_file import CocoFile, as_pycocotools, check_objects, read_lists
from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.images import write_image
from mmeffvit.utils.messages import progress

# COCO category of the VOC classes 1 to 20, aeroplane to tvmonitor
COCO_IDS = (5, 2, 16, 9, 44, 6, 3, 17, 62, 21, 67, 18, 19, 4, 1, 64, 20, 63, 7, 72)
LABELS = {category: label for label, category in enumerate(COCO_IDS, start=1)}

ANNOTATIONS = 'annotations/instances_train2017.json'
IMAGES = 'train2017'
LISTS = 'ImageSets/Segmentation'
VOC_PARTS = {
    'JPEGImages': 'it is in VOCtrainval_11-May-2012.tar',
    'SegmentationClass': 'it is in VOCtrainval_11-May-2012.tar',
    f'{LISTS}/train.txt': 'it is in VOCtrainval_11-May-2012.tar',
    f'{LISTS}/val.txt': 'it is in VOCtrainval_11-May-2012.tar',
    'SegmentationClassAug': "mmseg's tools/dataset_converters/voc_aug.py creates it from SBD",
    f'{LISTS}/aug.txt': "mmseg's tools/dataset_converters/voc_aug.py creates it from SBD",
}


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'voc_coco.py', '')
    add = parser.add_argument
    add('--coco', type=Path, default=Path('data/coco'), help='folder of COCO 2017')
    add('--voc', type=Path, default=Path('data/VOCdevkit/VOC2012'),
        help='folder of PASCAL VOC 2012 with SegmentationClassAug')  # fmt: skip
    add_out_dir(parser, 'data/voc12_coco')
    return parser


def run(coco: Path, voc: Path, out: Path) -> None:
    written = prepare_voc_coco(coco, voc, out)
    print(f'{written} label maps written; DATA_ROOT={out} for training')


def prepare_voc_coco(coco: Path, voc: Path, out: Path) -> int:
    """Create the folder that ``configs/_base_/datasets/voc12_coco.py`` reads.

    ``out`` will contain the links ``voc`` and ``coco/images``, ``coco/labels`` with one PNG for
    each of COCO's training images and ``coco/train.txt`` with their names. Existing label maps are
    kept, so an interrupted run can be resumed.

    Returns:
        Number of label maps written.
    """
    check_parts(coco, {IMAGES: 'it has the images', ANNOTATIONS: 'it has their annotations'})
    check_parts(voc, VOC_PARTS)
    annotations = read_annotations(coco / ANNOTATIONS)
    images = list(annotations.imgs.values())
    check_images(coco / IMAGES, [image['file_name'] for image in images])
    labels = out / 'coco' / 'labels'
    labels.mkdir(parents=True, exist_ok=True)
    link(out / 'voc', voc)
    link(out / 'coco' / 'images', coco / IMAGES)
    written = 0
    for image in progress(images, 'label maps'):
        path = labels / Path(image['file_name']).with_suffix('.png').name
        if not path.exists():
            instances = annotations.imgToAnns[image['id']]
            shape = (image['height'], image['width'])
            write_image(path, draw_labels(instances, shape, annotations.annToMask))
            written += 1
    names = sorted(Path(image['file_name']).stem for image in images)
    write_file(out / 'coco' / 'train.txt', '\n'.join([*names, '']))
    return written


def draw_labels(
    instances: Iterable[dict], shape: tuple[int, int], to_mask: Callable[[dict], np.ndarray]
) -> np.ndarray:
    """Classes of VOC per pixel, 0 to 20; 0 is background, including all categories that VOC lacks.

    Where instances overlap, the first one in the order of the annotation file wins.
    """
    labels = np.zeros(shape, np.uint8)
    for instance in instances:
        label = LABELS.get(instance['category_id'])
        if label is not None:
            labels[(labels == 0) & (to_mask(instance) > 0)] = label
    return labels


def check_parts(root: Path, parts: dict[str, str]) -> None:
    for name, fix in parts.items():
        if not (root / name).exists():
            raise UserError(f'{str(root / name)!r} does not exist: {fix}')


def check_images(folder: Path, names: Sequence[str]) -> None:
    present = set(os.listdir(folder))
    absent = [name for name in names if name not in present]
    if absent:
        raise UserError(
            f'{len(absent)} of {len(names)} images are not in {str(folder)!r}, first '
            f'{absent[0]!r}: the folder is incomplete'
        )


def read_annotations(path: Path) -> Any:
    """Index a valid annotation file by image: pycocotools' ``COCO``."""
    report = Findings(name='COCO', source=str(path))
    file = CocoFile(read_lists(path), report.add)
    check_objects(file, report, needs_masks=True)
    report.stop_run((faults.MASK_SHORT,))
    return as_pycocotools(file.content)


def link(path: Path, target: Path) -> None:
    """Make ``path`` a symbolic link to ``target``, unless it is already."""
    target = target.resolve()
    if path.is_symlink() and path.resolve() == target:
        return
    if path.exists() or path.is_symlink():
        raise UserError(
            f'{str(path)!r} exists and is not a link to {str(target)!r}; remove it or choose '
            'another output folder'
        )
    path.symlink_to(target, target_is_directory=True)


if __name__ == '__main__':
    run_tool(sys.modules[__name__])
