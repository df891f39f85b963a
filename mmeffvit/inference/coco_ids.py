"""Image and category ids for COCO results."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from mmeffvit.data.faults import Findings
from mmeffvit.data.formats.coco_file import CocoFile, read_lists
from mmeffvit.errors import UserError

if TYPE_CHECKING:
    from mmengine.dataset import BaseDataset


@dataclass
class CocoIds:
    """Ids of an annotation file, and consecutive numbers for everything else."""

    categories: list[int]  # category id by label; empty if they are not known
    category_source: str  # where the category ids come from, in words
    # image id of every file of the dataset, by path
    images: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = [number for number in self.images.values() if isinstance(number, int)]
        self.unused = count(max(numbers, default=0) + 1)

    def category_id(self, label: int) -> int:
        """The id of a label; label + 1 if no ids are known."""
        return self.categories[label] if self.categories else int(label) + 1

    def image_id(self, path: Path, is_image: bool) -> int:
        """The id of a file of the dataset, otherwise the next free number."""
        known = self.images.get(path.parent.resolve() / path.name) if is_image else None
        return next(self.unused) if known is None else known


def find_ids(dataset: 'BaseDataset | None', classes: tuple[str, ...]) -> CocoIds:
    """Ids of the annotation file of an unread dataset, if it exists and has the classes.

    Labels are mapped like mmdet's: to the categories of the classes, in the order of the file.
    """
    path = Path(getattr(dataset, 'ann_file', None) or '')
    if path.suffix != '.json' or not path.is_file():
        reason = (
            f'no annotation file at {path}' if path.name else 'no annotation file in the config'
        )
        return CocoIds([], f'label + 1 ({reason})')
    report = Findings(name='test', source=str(path))
    try:
        # annotations are not checked: those of other tasks have other fields
        content = read_lists(path, ('images', 'categories'))
        known = CocoFile({**content, 'annotations': []}, report.add)
        report.stop_run()
    except UserError as error:
        return CocoIds([], f'label + 1 ({error})')
    rows = [row for row in known.categories.values() if row['name'] in classes]
    if sorted(row['name'] for row in rows) != sorted(classes):
        return CocoIds([], f'label + 1 ({path} lacks some of the classes)')
    prefix = dataset.data_prefix
    folder = Path(prefix.get('img') or prefix.get('img_path') or '')
    images = {
        (folder / image['file_name']).parent.resolve() / Path(image['file_name']).name: image['id']
        for image in known.images.values()
    }
    return CocoIds([row['id'] for row in rows], f'from {path}', images)
