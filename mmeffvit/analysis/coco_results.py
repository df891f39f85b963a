"""Results files of detectors: COCO's JSON, and pickles of ``mmeffvit test --out``."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO

from mmeffvit.data.faults import Findings
from mmeffvit.data.formats.coco_file import (
    CocoFile,
    as_pycocotools,
    check_names,
    check_objects,
    is_box,
    is_id,
    is_number,
    mask_fault,
    read_lists,
)
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.safe_globals import read_pickle
from mmeffvit.utils.files import read_json
from mmeffvit.utils.text import as_user_error

FIELDS = {'bbox': 'bbox', 'segm': 'segmentation'}  # fields of a detection by IoU type
PICKLES = ('.pkl', '.pickle')
MAX_SCORE = 2**63
Detection = dict[str, Any]
VALUES = {  # checks of the fields of a detection
    'image_id': is_id,
    'category_id': is_id,
    'score': lambda value: is_number(value) and abs(value) < MAX_SCORE,
    'bbox': lambda value: value is None or is_box(value),
}


def read_ground_truth(path: str | Path) -> COCO:
    """Read a COCO annotation file.

    Annotations are renumbered from 1, since the metric reads id 0 as "no match".

    Raises:
        UserError: If the file is missing or is not an annotation file, or two categories have the
            same name.
    """
    report = Findings(name='annotation', source=str(path))
    content = read_lists(path)
    for number, row in enumerate(content['annotations'], 1):
        if isinstance(row, dict):
            row.update(id=number, iscrowd=row.get('iscrowd') or 0)
    file = CocoFile(content, report.add)
    check_names(file, report)
    check_objects(file, report)
    report.stop_run()
    # pycocotools evaluates the listed images only, but indexes all annotations
    listed = [row for row in content['annotations'] if row['image_id'] in file.images]
    return as_pycocotools({**file.content, 'annotations': listed})


def read_detections(
    path: str | Path, truth: COCO, classes: Sequence[str] | None = None
) -> list[Detection]:
    """Read detections, in COCO's results format.

    Args:
        path: A list of detections as JSON, or a ``.pkl`` of mmdet, as written by
            ``mmeffvit test --out``.
        truth: The annotations that the detections belong to.
        classes: Classes of the model, which a pickle lacks; None for all categories of the
            annotation file. Labels follow the order of the file, like mmdet's.

    Raises:
        UserError: If the file is missing or invalid, or refers to images or categories that are not
            in ``truth``.
    """
    if Path(path).suffix in PICKLES:
        samples, labels = read_samples(path, 'pred_instances'), category_ids(truth, classes)
        with well_formed(path):
            check_images(samples, truth.imgs, path)
            found = list(detections_in(samples, labels, path))
    else:
        found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise UserError(f'{path} is not a results file: it must be a list of detections')
    if not found:
        raise UserError(f'{path} has no detections: there is nothing to analyze')
    with well_formed(path):
        renumber(found, truth.imgs, Path(path))
        check_detections(found, truth.imgs, truth.cats, path)
    return found


def renumber(found: Sequence[Detection], images: Mapping[int, Mapping], path: Path) -> None:
    """Give detections the image ids of the annotation file, by the names in ``FILE.images.json``.

    Predictions of an exported file, which knows no annotations, number the images from 1.
    """
    beside = path.with_name(f'{path.stem}.images.json')
    if not beside.is_file():
        return
    names = {row['id']: row['file_name'] for row in read_json(beside)}
    known: dict[str, set[int]] = defaultdict(set)
    for number, image in images.items():
        for name in {image['file_name'], Path(image['file_name']).name}:
            known[name].add(number)
    # relative paths first: images of several folders may share their names
    numbers = {number: known[name] or known[Path(name).name] for number, name in names.items()}
    if all(at in found or not (found or at in images) for at, found in numbers.items()):
        return
    for detection in found:
        number = detection['image_id']
        if len(numbers[number]) != 1:
            raise UserError(
                f'{path} has {names[number]}, of which the annotation file has '
                f'{len(numbers[number])}: give the annotation file of these results'
            )
        [detection['image_id']] = numbers[number]


def check_images(samples: Sequence[dict], images: Mapping[int, Mapping], path: str | Path) -> None:
    """Check that ids are of the same images: in the index of a run they count from 1."""
    for sample in samples:
        name, image = sample.get('img_path'), images.get(sample['img_id'])
        if name and image and Path(name).name != Path(image['file_name']).name:
            raise UserError(
                f'{path} has {Path(name).name} as image {sample["img_id"]}, which is '
                f'{image["file_name"]} in the annotation file: give the one of these results, such '
                'as index/val.json of a run'
            )


def check_detections(
    found: Sequence[Detection],
    images: Mapping[int, Mapping],
    categories: Collection[int],
    path: str | Path,
) -> None:
    """Check all fields of the detections before pycocotools reads them."""
    for detection in found:
        if wrong := [key for key, is_valid in VALUES.items() if not is_valid(detection.get(key))]:
            raise UserError(
                f'{path} has a detection with {wrong[0]} {detection.get(wrong[0])!r:.80}: fix the '
                'program that writes it'
            )
    for key, known in (('image_id', images), ('category_id', categories)):
        unknown = {detection[key] for detection in found} - set(known)
        if unknown:
            first = min(map(str, unknown))
            hint = ', such as index/val.json of a run' if key == 'image_id' else ''
            raise UserError(
                f'{path} has {key} {first:.80}, which is not in the annotation file '
                f'({len(unknown)} in total): give the annotation file of these results{hint}'
            )
    for detection in found:
        mask = detection.get('segmentation')
        if mask is not None and (
            fault := mask_fault(with_text_counts(mask), images[detection['image_id']])
        ):
            raise UserError(f'{path} has a detection with an invalid mask: {fault[1]}')


def with_text_counts(mask: Any) -> Any:
    """A mask with run lengths as str and a size as a list: pickles have bytes and tuples."""
    if not isinstance(mask, dict) or not isinstance(mask.get('counts'), bytes):
        return mask
    size = mask.get('size')
    size = list(size) if isinstance(size, tuple) else size
    return dict(size=size, counts=mask['counts'].decode('latin-1'))


def category_ids(truth: COCO, classes: Sequence[str] | None) -> list[int]:
    """The category of every label."""
    categories = truth.dataset['categories']
    names = [category['name'] for category in categories]
    if unknown := [name for name in classes or () if name not in names]:
        raise UserError(
            f'no category is named {", ".join(unknown)}; choose from {", ".join(names)}'
        )
    return [c['id'] for c in categories if classes is None or c['name'] in classes]


def read_samples(path: str | Path, key: str) -> list[dict[str, Any]]:
    """The data samples in a pickle of ``mmeffvit test --out``, all of which have a key."""
    samples = read_pickle(path)
    is_list = isinstance(samples, list) and samples
    if not is_list or not all(isinstance(sample, dict) and key in sample for sample in samples):
        raise UserError(
            f'{path} has no predictions of this type of model, with {key!r}: write it with '
            '`mmeffvit test --out`'
        )
    return samples


def well_formed(path: str | Path) -> AbstractContextManager:
    """Context for reading predictions, of which any value may have any type."""
    return as_user_error(f'{path} has malformed predictions')


def real(values: Any) -> Any:
    """The values; NumPy and torch drop imaginary parts with a warning or none."""
    if np.iscomplexobj(values) or getattr(getattr(values, 'dtype', None), 'is_complex', False):
        raise TypeError('complex numbers')
    return values


def detections_in(samples: Any, labels: Sequence[int], path: str | Path) -> Iterator[Detection]:
    """The detections in mmdet's data samples, with the category of each label."""
    for sample in samples:
        instances = sample['pred_instances']
        corners = np.asarray(real(instances['bboxes']), dtype=float).reshape(-1, 4)
        boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        masks = instances.get('masks', [None] * len(boxes))
        scores, classes = (real(instances[key]) for key in ('scores', 'labels'))
        rows = zip(boxes, scores, classes, masks, strict=True)
        for box, score, label, mask in rows:
            if not 0 <= label < len(labels):
                raise UserError(
                    f'{path} has label {int(label)!s:.40}, but there are {len(labels)} classes'
                )
            detection = dict(image_id=sample['img_id'], category_id=labels[int(label)])
            detection |= dict(bbox=box.tolist(), score=float(score))
            yield detection if mask is None else detection | dict(segmentation=mask)


def select(found: Sequence[Detection], iou_type: str, score_thr: float = 0.0) -> list[Detection]:
    """Copies of the detections for the metric of boxes or masks.

    For masks, boxes are removed: pycocotools would use the area of the box instead of the mask.
    """
    field = FIELDS[iou_type]
    if any(detection.get(field) is None for detection in found):
        raise UserError(f'--types {iou_type} needs {field!r} in every detection of the results')
    other = {'bbox', 'segmentation'} - {field}
    return [
        {key: value for key, value in detection.items() if key not in other}
        for detection in found
        if detection['score'] >= score_thr
    ]
