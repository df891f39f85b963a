"""Write a dataset for mmdet and mmseg; its images are not copied."""

import json
import os
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.images import write_image
from mmeffvit.utils.messages import progress
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import listed

from .formats.coco_file import run_lengths
from .formats.label_maps import IGNORED, MAX_CLASSES, read_label_map
from .records import DataSet, Object, Picture

BACKGROUND = 'background'


@dataclass(frozen=True)
class Split:
    """One written split."""

    annotations: Path  # COCO's JSON, or the pairs of images and label maps
    images: Path  # the folder that these names are relative to
    count: int  # number of images
    pixels: tuple[int, ...] = ()  # pixels of each class of label maps, up to 255


def write_coco(data: DataSet, folder: Path) -> dict[str, Split]:
    """Write ``train.json`` and ``val.json`` in COCO format."""
    if data.has_label_maps:
        raise UserError(f'{data.root} has label maps, which only segmentors can be trained on')
    written = {}
    for split, pictures in data.splits.items():
        images = common_folder(pictures)
        content = dict(
            info=describe(data),  # required by pycocotools
            images=[
                dict(id=i, file_name=relpath(p.path, images), height=p.size[0], width=p.size[1])
                for i, p in enumerate(pictures, 1)
            ],
            annotations=[],
            categories=[dict(id=i, name=name) for i, name in enumerate(data.classes, 1)],
        )
        for number, picture in enumerate(pictures, 1):
            for item in picture.objects:
                row = dict(id=len(content['annotations']) + 1, image_id=number)
                content['annotations'].append({**row, **to_coco(item)})
        path = folder / f'{split}.json'
        write_file(path, json.dumps(content))
        written[split] = Split(path, images, len(pictures))
    return written


def describe(data: DataSet) -> dict:
    made = {'validation split': data.made_split} if data.made_split else {}
    return dict(description=f'{data.format} in {data.root}', **made)


def to_coco(item: Object) -> dict:
    row = dict(
        category_id=item.label + 1,
        bbox=[round(value, 3) for value in item.box],
        # mmdet ignores objects without one: of outlines that cross themselves or are lines
        area=round(area_of(item), 3) or round(item.box[2] * item.box[3], 3),
        iscrowd=int(item.is_crowd),
        **({} if item.score == 1 else dict(score=round(item.score, 4))),
    )
    return row if item.mask is None else dict(row, segmentation=item.mask)


def area_of(item: Object) -> float:
    """Pixels of the mask, else of the box."""
    if isinstance(item.mask, dict):
        return float(sum(run_lengths(item.mask['counts'])[1::2]))
    if item.mask:
        return sum(cv2.contourArea(np.float32(part).reshape(-1, 2)) for part in item.mask)
    return item.box[2] * item.box[3]


def write_label_maps(data: DataSet, folder: Path) -> dict[str, Split]:
    """Write ``SPLIT/NUMBER.png`` with the classes of every image, and ``SPLIT.json``.

    That file has the pairs of images and label maps, see
    :class:`mmeffvit.models.segmentation.PairedSegDataset`. Nothing is named after a file of the
    dataset. Masks are drawn over class 0, background; smaller ones are on top, and crowds ignored.
    """
    if not data.has_label_maps and not data.has_masks:
        first = next((f' ({item.where})' for item in data.objects() if item.mask is None), '')
        raise UserError(
            f'{data.root} has boxes without masks{first}, and a segmentor needs masks: choose a '
            'detector, such as --model rtmdet_swiftformer_xs'
        )
    number = len(classes_of_maps(data))
    if number > MAX_CLASSES:
        raise UserError(
            f'{data.root} has {number} classes with background; give up to {MAX_CLASSES}'
        )
    written = {}
    drawn = {0}
    for split, pictures in data.splits.items():
        images = common_folder(pictures)
        pairs = []
        pixels = np.zeros(MAX_CLASSES + 1, np.int64)
        numbered = enumerate(pictures, 1)
        for number, picture in progress(numbered, f'{split}: label maps', len(pictures)):
            name = f'{split}/{number:06d}.png'
            labels = draw(picture, data)
            pixels += np.bincount(labels.ravel(), minlength=len(pixels))
            write_image(folder / name, labels)
            pairs.append((relpath(picture.path, images), name))
        write_file(folder / f'{split}.json', json.dumps(pairs, indent=0))
        drawn.update(np.flatnonzero(pixels).tolist())
        found = tuple(pixels[: len(classes_of_maps(data))].tolist())
        written[split] = Split(folder / f'{split}.json', images, len(pictures), found)
    if not data.has_label_maps:
        check_drawn(data, drawn)
    write_file(folder / 'about.json', json.dumps(describe(data), indent=2))
    return written


def check_drawn(data: DataSet, drawn: set[int]) -> None:
    """Reject a class without a pixel: its masks are empty, or covered by smaller objects."""
    values = values_of(data)
    labels = {item.label for item in data.objects() if not item.is_crowd}
    hidden = {data.classes[label] for label in labels if values[label] not in drawn}
    if hidden:
        raise UserError(
            f'{data.root}: label maps without a pixel of {listed(sorted(hidden))}: its masks are '
            'empty, or smaller objects cover them; remove the class, or train a detector'
        )


def classes_of_maps(data: DataSet) -> list[str]:
    """The classes in written label maps."""
    if data.has_label_maps:
        return data.classes
    return [BACKGROUND, *(name for name in data.classes if name.lower() != BACKGROUND)]


def values_of(data: DataSet) -> list[int]:
    """The value in written label maps of every class of objects."""
    values = {name: value for value, name in enumerate(classes_of_maps(data))}
    return [values.get(name, 0) for name in data.classes]  # background, however it is spelled


def draw(picture: Picture, data: DataSet) -> NDArray:
    """Classes by pixel: (H, W) uint8."""
    if data.has_label_maps:
        return read_label_map(picture.label_map, picture.colors or data.colors)[0]
    values = values_of(data)
    labels = np.zeros(picture.size, np.uint8)
    for item in sorted(picture.objects, key=area_of, reverse=True):
        labels[to_mask(item, picture.size)] = IGNORED if item.is_crowd else values[item.label]
    return labels


def to_mask(item: Object, size: tuple[int, int]) -> NDArray:
    """The pixels of an object: ``size`` bool."""
    if isinstance(item.mask, dict):  # runs down the columns, background first
        runs = run_lengths(item.mask['counts'])
        values = np.arange(len(runs)) % 2
        return np.repeat(values, runs).reshape(size, order='F').astype(bool)
    coco = require('pycocotools.mask', 'Drawing polygons')
    points = [np.resize(part, (max(len(part) // 2, 3), 2)) for part in item.mask]
    corners, ends = np.concatenate(points), np.array(size[::-1])
    left, top = first = np.floor(corners.min(0)).clip(0, ends - 1).astype(int)
    right, bottom = np.ceil(corners.max(0)).clip(first + 1, ends).astype(int)
    parts = [(part - first).ravel() for part in points]  # all of a large image takes ten times
    code = coco.merge(coco.frPyObjects(parts, bottom - top, right - left))
    mask = np.zeros(size, np.uint8)
    mask[top:bottom, left:right] = coco.decode(code)
    if not coco.area(code):  # thinner than a pixel
        cv2.polylines(mask, [part.astype(np.int32) for part in points], True, 1)
    return mask.astype(bool)


def common_folder(pictures: list[Picture]) -> Path:
    """The common parent folder of all images."""
    return Path(os.path.commonpath({os.path.dirname(os.path.abspath(p.path)) for p in pictures}))
