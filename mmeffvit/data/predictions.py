"""Predictions of a model as annotations: COCO results with scores, or a folder of label maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.text import check_names, counted, listed

from .faults import Findings
from .files import ImageFinder, images_below
from .formats.coco import pictures_of
from .formats.coco_file import LISTS, CocoFile, is_box, is_id, is_score, read_lists
from .formats.label_maps import IGNORED, guess_classes, read_table
from .formats.masks import read_pair
from .records import DataSet, Picture

DETECTOR, SEGMENTOR = 'predictions in COCO format', 'predicted label maps'


@dataclass(frozen=True)
class Wanted:
    """Options for reading predictions."""

    # class names to keep, in this order; None keeps the classes of the predictions
    classes: Sequence[str] | None = None
    min_score: float = 0.3  # minimum score
    # score from which a prediction counts as an annotation; others are sampled
    sure_score: float = 0.7
    # COCO file with the image and category ids of a list of results; by default
    # ``NAME.images.json`` beside it, and the classes with ids from 1
    ids: Path | None = None
    # whether the ids of a list, and the values of label maps without a table, number ``classes``
    are_numbered: bool = True

    def check(self) -> None:
        """Reject invalid scores."""
        if not 0 <= self.min_score <= self.sure_score <= 1:
            raise UserError(
                f'--min-score is {self.min_score:g} and --sure-score {self.sure_score:g}; give '
                '0 to 1, the first no larger'
            )


def read_predictions(path: Path, images: Path, wanted: Wanted) -> DataSet:
    """Read predictions for the images of a folder.

    Args:
        path: A JSON file of objects, or a folder of label maps with the names of the images.
        images: The folder.
        wanted: Classes and scores to keep.

    Raises:
        UserError: If they are not of these images or classes, or there are none.
    """
    if path.is_dir():
        return read_label_maps(path, images, wanted)
    return of_objects(path, images, as_dataset(path, read_json(path), wanted), wanted)


def of_objects(path: Path, images: Path, content: dict[str, list], wanted: Wanted) -> DataSet:
    """A dataset of predicted objects, whose classes are matched by name."""
    findings = Findings()
    known = CocoFile({**content, 'annotations': []}, lambda fault, place: None).categories
    classes = kept_classes(path, [each['name'] for each in known.values()], wanted.classes)
    labels = {name: label for label, name in enumerate(classes)}
    kept = {key: labels[each['name']] for key, each in known.items() if each['name'] in labels}
    others = known.keys() - kept.keys()
    rows = [row for row in content['annotations'] if not is_dropped(row, others, wanted.min_score)]
    if not rows:
        raise UserError(
            f'{path} has no object of {listed(map(repr, classes), 4)} with a score of '
            f'{wanted.min_score:g} or more: lower --min-score, or choose another teacher'
        )
    complete(rows, path)
    content = {**content, 'annotations': rows}
    file = CocoFile(content, lambda fault, place: findings.add(fault, f'{path}: {place}'))
    pictures = list(pictures_of(file, path, None, kept, ImageFinder(images, findings), findings))
    if not pictures:
        raise UserError(
            f'{path} has predictions for none of the {counted(len(images_below(images)), "image")} '
            f'in {images}: give the images that they are of'
        )
    for picture in pictures:
        picture.is_predicted = True
    return DataSet(DETECTOR, images, classes, {'train': pictures}, findings)


def as_dataset(path: Path, content: Any, wanted: Wanted) -> dict[str, list]:
    """Images, annotations and categories of a file of predictions."""
    if isinstance(content, dict) and all(isinstance(content.get(name), list) for name in LISTS):
        return content
    if not isinstance(content, list):
        raise UserError(
            f'{path} is neither a list of COCO results nor a COCO file with scores: write it with '
            '`mmeffvit predict --out FILE.json`'
        )
    if not content:
        raise UserError(f'{path} is empty: there is nothing to learn from')
    if wanted.ids is not None:
        return {**read_lists(wanted.ids, ('images', 'categories')), 'annotations': content}
    if wanted.classes is None or not wanted.are_numbered:
        raise UserError(
            f'{path} has ids in place of class names: give --ids ANNOTATIONS.json, or --classes in '
            'the order of the ids from 1'
        )
    categories = [dict(id=i, name=name) for i, name in enumerate(wanted.classes, 1)]
    beside = path.with_name(f'{path.stem}.images.json')
    if not beside.is_file():
        raise UserError(
            f'{path} has ids in place of image names, and {beside.name} is not beside it: give '
            '--ids ANNOTATIONS.json'
        )
    records = read_json(beside)
    if not isinstance(records, list):
        raise UserError(f'{beside} is not a list of images: give --ids ANNOTATIONS.json')
    return dict(images=records, annotations=content, categories=categories)


def is_dropped(row: Any, others: set, low: float) -> bool:
    """Whether a record is a valid prediction that is not wanted; invalid ones are faults later."""
    if not isinstance(row, dict):
        return False
    category, score = row.get('category_id'), row.get('score', 1.0)
    return (is_id(category) and category in others) or (is_score(score) and score < low)


def complete(rows: list, path: Path) -> None:
    """Add ids and areas to predictions, in place, and reject invalid scores."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            continue
        if not is_score(row.get('score', 1.0)):
            raise UserError(
                f'{path}: prediction {number} has the score {row["score"]!r:.40}; give 0 to 1'
            )
        box = row.get('bbox')
        area = abs(box[2] * box[3]) if is_box(box) else None
        row.update(id=number, area=area, iscrowd=row.get('iscrowd', 0))


def kept_classes(path: Path, theirs: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """The classes to train: the wanted ones, else the classes of the predictions."""
    check_names(theirs, str(path))
    if wanted is None:
        return list(theirs)
    if not set(theirs) & set(wanted):
        raise UserError(
            f'{path} has no class of the student: {listed(map(repr, theirs), 4)} and '
            f'{listed(map(repr, wanted), 4)}; rename the classes of one of the two'
        )
    return list(wanted)


def read_label_maps(path: Path, images: Path, wanted: Wanted) -> DataSet:
    """See :func:`read_predictions`."""
    findings = Findings()
    pictures = read_pair(images, path, findings)
    if not pictures:
        raise UserError(
            f'{path} has label maps for none of the images in {images}: they have the same names, '
            'and end in .png'
        )
    theirs, colors, _ = read_table(path, (), findings)
    if not theirs and wanted.classes is not None:
        if not wanted.are_numbered:
            raise UserError(
                f'{path} has values in place of class names: write a table, classes.txt, or give '
                '--classes in the order of the values from 0'
            )
        theirs, colors = list(wanted.classes), {i: i for i in range(len(wanted.classes))}
    if not theirs:
        theirs, colors = guess_classes(pictures)
    return of_label_maps(path, images, pictures, theirs, colors, wanted, findings)


def of_label_maps(
    path: Path,
    images: Path,
    pictures: list[Picture],
    theirs: Sequence[str],
    colors: Mapping[Any, int],
    wanted: Wanted,
    findings: Findings,
) -> DataSet:
    """A dataset of predicted label maps, whose classes are matched by name; others are ignored."""
    classes = kept_classes(path, theirs, wanted.classes)
    labels = {name: label for label, name in enumerate(classes)}
    mapped = {
        value: IGNORED if label == IGNORED else labels.get(theirs[label], IGNORED)
        for value, label in colors.items()
    }
    for picture in pictures:
        picture.is_predicted, picture.colors = True, mapped
    return DataSet(SEGMENTOR, images, classes, {'train': pictures}, findings, colors=mapped)
