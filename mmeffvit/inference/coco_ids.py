"""The numbers that COCO results have for images and categories."""

from dataclasses import dataclass, field
from pathlib import Path

from mmengine.dataset import BaseDataset

from mmeffvit.checks.data.coco import CocoFile
from mmeffvit.checks.data.report import Report
from mmeffvit.errors import UserError
from mmeffvit.utils.reading import read_json


@dataclass
class CocoIds:
    """Ids of an annotation file, and running numbers for all it does not know.

    Args:
        categories: The id of every label.
        images: The id of every file of the data set, by its path.
        said: In words, where the categories are from.
    """

    categories: list[int]
    said: str
    images: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = [number for number in self.images.values() if isinstance(number, int)]
        self.next_image = max(numbers, default=0) + 1

    def image_id(self, path: Path, is_image: bool = True) -> int:
        """The id of the data set's own file, else the next number that no file has."""
        known = self.images.get(path.parent.resolve() / path.name) if is_image else None
        if known is not None:
            return known
        self.next_image += 1
        return self.next_image - 1


def find_ids(dataset: BaseDataset | None, classes: tuple[str, ...]) -> CocoIds:
    """Ids of the annotation file of a data set, where it is at hand and has the classes.

    A label's category is the host's: the categories of the classes, in the order of the file.

    Args:
        dataset: A data set that is not read yet.
        classes: Names by label.
    """
    path = Path(getattr(dataset, 'ann_file', None) or '')
    running = list(range(1, len(classes) + 1))
    if path.suffix != '.json' or not path.is_file():
        reason = f'no annotation file at {path}' if path.name else 'the config names no annotations'
        return CocoIds(running, f'label + 1 ({reason})')
    report = Report('test', str(path))
    try:
        content = read_json(path)
        # nothing is asked of the annotations: those of other tasks have other fields
        known = CocoFile(
            {key: content.get(key) or [] for key in ('images', 'categories')} | {'annotations': []},
            report,
        )
        report.stop()
    except (UserError, AttributeError, TypeError) as error:
        return CocoIds(running, f'label + 1 ({error})')
    categories = [c['id'] for c in known.categories.values() if c['name'] in classes]
    if len(categories) != len(classes):
        return CocoIds(running, f'label + 1 ({path} lacks some of the classes)')
    prefix = dataset.data_prefix
    folder = Path(prefix.get('img') or prefix.get('img_path') or '')
    images = {
        (folder / image['file_name']).parent.resolve() / Path(image['file_name']).name: image['id']
        for image in known.images.values()
    }
    return CocoIds(categories, f'those of {path}', images)
