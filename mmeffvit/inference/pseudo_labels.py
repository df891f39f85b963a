"""A teacher's predictions for unlabeled images, cached on disk with a run."""

import json
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmeffvit.data.faults import Findings
from mmeffvit.data.files import find_images
from mmeffvit.data.formats.coco_file import MIN_SIDE, is_size
from mmeffvit.data.predictions import Wanted, of_label_maps, of_objects
from mmeffvit.data.records import DataSet, Picture
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json, stamp, write_file
from mmeffvit.utils.images import write_labels
from mmeffvit.utils.messages import logger, progress
from mmeffvit.utils.text import counted

from .coco_ids import CocoIds
from .inputs import Frame, Media, read_frames
from .predictor import BasePredictor, predict_frames
from .results import LabelMap, Result
from .writers import coco_results

SHARD = 16  # images per file of predictions; existing files are reused
ABOUT = 'about.json'
LABEL_MAP = re.compile(r'\d{6,}\.png')  # name of one, beside its shard
MIB = 2**20


class Teacher:
    """A model that predicts the labels of a student; its memory is free once it has predicted."""

    def __init__(self, name: str, predictor: BasePredictor) -> None:
        if predictor.is_classifier:
            raise UserError(f'the teacher {name} is a classifier: choose a detector or segmentor')
        self.predictor: BasePredictor | None = predictor
        self.is_detector = predictor.is_detector

    def predict(
        self,
        described: dict[str, Any],
        images: Path,
        folder: Path,
        wanted: Wanted,
        *,
        keep_masks: bool,
    ) -> DataSet:
        """The predictions for a folder of images; existing ones are read from ``folder``.

        ``described`` is the identity of the teacher. This can be called once.

        Raises:
            UserError: If the folder has predictions of another teacher, or there are none.
        """
        predictor, self.predictor = self.predictor, None
        low = wanted.min_score
        rows = list(predicted_rows(predictor, described, images, folder, low, keep_masks))
        if self.is_detector:
            return of_objects(folder, images, coco_content(rows, predictor.classes), wanted)
        pictures = [
            Picture(images / row['file_name'], label_map=folder / row['label_map']) for row in rows
        ]
        classes = list(predictor.classes)
        colors = {label: label for label in range(len(classes))}
        return of_label_maps(folder, images, pictures, classes, colors, wanted, Findings())


def coco_content(rows: Sequence[dict], classes: Sequence[str]) -> dict[str, list]:
    """The records of a detector's predictions in COCO format."""
    sizes = ('file_name', 'height', 'width')
    return dict(
        images=[dict(id=i, **{key: row[key] for key in sizes}) for i, row in enumerate(rows, 1)],
        annotations=[
            dict(item, image_id=i) for i, row in enumerate(rows, 1) for item in row['objects']
        ],
        categories=[dict(id=i, name=name) for i, name in enumerate(classes, 1)],
    )


def row_of(
    frame: Frame, result: Result, images: Path, label_map: Path, *, keep_masks: bool
) -> dict[str, Any]:
    """The record of the predictions for an image; its label map is written to a file."""
    height, width = frame.image.shape[:2]
    name = frame.source.path.relative_to(images).as_posix()
    row: dict[str, Any] = dict(file_name=name, height=height, width=width)
    if isinstance(result, LabelMap):
        row['label_map'] = label_map.name
        write_labels(label_map, result.labels)
    else:
        sides = result.boxes[:, 2:] - result.boxes[:, :2]  # clipped to the image
        found = result.select((sides >= MIN_SIDE).all(axis=1))
        found = found if keep_masks else replace(found, masks=None)
        row['objects'] = coco_results(found, CocoIds([], 'label + 1'))
    return row


def skip(text: str) -> None:
    logger.warning(f'skipped: {text}')


def predicted_rows(
    predictor: BasePredictor,
    described: dict[str, Any],
    images: Path,
    folder: Path,
    low: float,
    keep_masks: bool,
) -> Iterator[dict]:
    """A record for every image, with its objects or its label map."""
    paths = find_images(images)
    names = [path.relative_to(images).as_posix() for path in paths]
    stamps = [(name, *stamp(path)) for name, path in zip(names, paths, strict=True)]
    about = dict(teacher=described, min_score=low, masks=keep_masks, images=stamps)
    check_about(folder / ABOUT, about)
    starts, known = range(0, len(paths), SHARD), set(names)
    for start in progress(starts, 'teacher', len(starts)):
        shard = folder / f'{start:06d}.json'
        if not shard.is_file():
            sources = [Media(p, *(Path(p.name),) * 3) for p in paths[start : start + SHARD]]
            frames = read_frames(sources, predictor.read, skip)
            found = enumerate(predict_frames(predictor, frames, [], low, 1, skip), start + 1)
            rows = [
                row_of(*each, images, folder / f'{number:06d}.png', keep_masks=keep_masks)
                for number, each in found
            ]
            write_file(shard, json.dumps(rows))
            if start == 0:  # the expected size of all predictions
                size = sum(p.stat().st_size for p in folder.iterdir() if p.name != ABOUT)
                total = size / len(sources) * len(paths) / MIB
                logger.info(
                    f'predictions of the teacher for {counted(len(paths), "image")}: '
                    f'{total:.1f} MiB in {folder}'
                )
        yield from read_shard(shard, known, is_detector=predictor.is_detector)


def read_shard(path: Path, names: Set[str], *, is_detector: bool) -> list[dict]:
    """The records of a file of predictions for images of these names.

    Raises:
        UserError: If one is not as :func:`row_of` makes it.
    """
    rows = read_json(path)
    if not isinstance(rows, list) or not all(is_row(row, names, is_detector) for row in rows):
        raise UserError(f'{path} is damaged: remove it, and its images are predicted again')
    return rows


def is_row(row: Any, names: Set[str], is_detector: bool) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get('file_name'), str):
        return False
    if is_detector:
        found = row.get('objects')
        is_prediction = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    else:
        is_prediction = bool(LABEL_MAP.fullmatch(str(row.get('label_map'))))
    sizes = (row.get('height'), row.get('width'))
    return is_prediction and row['file_name'] in names and all(map(is_size, sizes))


def check_about(path: Path, about: dict[str, Any]) -> None:
    """Reject existing predictions of other images, of another teacher or with other options."""
    if not path.is_file():
        write_file(path, json.dumps(about))
    elif read_json(path) != json.loads(json.dumps(about)):
        raise UserError(
            f'{path.parent} has predictions of another teacher, of other images or with other '
            'options: remove it, or choose another --work-dir'
        )
