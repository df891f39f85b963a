"""Generated data in the layouts of COCO 2017 and of ADE20K: shapes on textured backgrounds.

Every image is a function of (seed, split, number), so any part of a set can be regenerated.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.messages import progress

from .formats.coco_file import encode_runs
from .formats.shapes import box_of_mask

CLASSES = ('circle', 'square', 'triangle', 'star')
SPLITS = ('train2017', 'val2017')
ADE20K_CLASSES = ('ground', *CLASSES)  # values 1 to 5 of a label map; 0 is unlabeled
ADE20K_SPLITS = (('training', 'ADE_train'), ('validation', 'ADE_val'))


@dataclass(frozen=True)
class ShapesSpec:
    """Specification of a generated set; equal specifications give equal files."""

    num_train: int = 800  # images
    num_val: int = 100
    side: int = 128  # height and width of an image, in pixels
    seed: int = 0
    max_objects: int = 5  # shapes per image; the minimum is 1
    min_diameter: float = 0.22  # of a shape, relative to ``side``
    max_diameter: float = 0.55
    max_tilt: float = 20.0  # largest rotation of a shape, in degrees
    min_visible: float = 0.4  # smallest visible part of the area of every shape, in (0, 1]


def generate(folder: Path, spec: ShapesSpec) -> None:
    """Write the set to ``folder``, unless the same set is already there.

    It has ``train2017/``, ``val2017/``, ``annotations/`` and ``spec.json``, and is written
    atomically.

    Raises:
        UserError: If ``folder`` contains anything else, including another generated set: nothing is
            removed.
    """
    _generate(folder, asdict(spec), spec, _write_coco)


def generate_ade20k(folder: Path, spec: ShapesSpec) -> None:
    """Write the same images as :func:`generate`, with label maps in the layout of ADE20K.

    Images are the upper three quarters of the drawn squares. In a label map 0 marks the unlabeled
    outlines of shapes, and ``ADE20K_CLASSES`` start at 1: mmseg's ``ADE20KDataset`` reads them as
    the first five of its 150 classes, its ``BaseSegDataset`` with ``reduce_zero_label=True`` as the
    classes in ``metainfo``.
    """
    _generate(folder, dict(asdict(spec), layout='ADE20K'), spec, _write_ade20k)


def _generate(
    folder: Path,
    contents: dict,
    spec: ShapesSpec,
    write: Callable[[Path, int, int, ShapesSpec], None],
) -> None:
    """Run ``write(folder, split, count, spec)`` for both splits, unless ``contents`` exist."""
    stamp = folder / 'spec.json'
    wanted = json.dumps(contents, indent=2)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if folder.exists():
        held = 'a set of another seed, size or layout' if stamp.is_file() else 'other files'
        raise UserError(f'{folder} contains {held}; choose a new folder')
    with atomic_output(folder) as partial:
        for split, count in enumerate((spec.num_train, spec.num_val)):
            write(partial, split, count, spec)
        (partial / stamp.name).write_text(wanted)


def _write_coco(folder: Path, split: int, count: int, spec: ShapesSpec) -> None:
    name = SPLITS[split]
    (folder / name).mkdir(parents=True)
    images: list[dict] = []
    annotations: list[dict] = []
    for number in progress(range(count), name):
        image, instances = draw_image(np.random.default_rng((spec.seed, split, number)), spec)
        file_name = f'{number:06d}.png'
        cv2.imwrite(os.fsencode(folder / name / file_name), image)
        images.append(dict(id=number, file_name=file_name, height=spec.side, width=spec.side))
        for label, mask in instances:
            row = dict(id=len(annotations) + 1, image_id=number, category_id=label + 1)
            annotations.append({**row, **encode_mask(mask)})
    content = dict(
        info=dict(description=f'generated shapes, seed {spec.seed}'),  # required by pycocotools
        images=images,
        annotations=annotations,
        categories=[dict(id=i + 1, name=name) for i, name in enumerate(CLASSES)],
    )
    (folder / 'annotations').mkdir(exist_ok=True)
    (folder / 'annotations' / f'instances_{name}.json').write_text(json.dumps(content))


def _write_ade20k(folder: Path, split: int, count: int, spec: ShapesSpec) -> None:
    split_name, prefix = ADE20K_SPLITS[split]
    images, annotations = (folder / kind / split_name for kind in ('images', 'annotations'))
    images.mkdir(parents=True)
    annotations.mkdir(parents=True)
    height = spec.side * 3 // 4
    for number in progress(range(count), split_name):
        image, instances = draw_image(np.random.default_rng((spec.seed, split, number)), spec)
        name = f'{prefix}_{number + 1:08d}'
        cv2.imwrite(os.fsencode(images / f'{name}.jpg'), image[:height])
        labels = label_map(instances, spec.side)[:height]
        cv2.imwrite(os.fsencode(annotations / f'{name}.png'), labels)


def label_map(instances: Sequence[tuple[int, np.ndarray]], side: int) -> np.ndarray:
    """A label map like ADE20K's: 1 is the ground, 2 to 5 are the shapes, 0 are their outlines.

    From what :func:`draw_image` returns -> (side, side) uint8.
    """
    labels = np.ones((side, side), np.uint8)
    for label, mask in instances:
        labels[mask] = label + 2
    kernel = np.ones((3, 3), np.uint8)
    labels[cv2.dilate(labels, kernel) != cv2.erode(labels, kernel)] = 0
    return labels


def draw_image(
    rng: np.random.Generator, spec: ShapesSpec
) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """Draw overlapping shapes on a textured background.

    Returns:
        The image, (side, side, 3) uint8 BGR, and (label, visible mask) of every shape, the mask
        (side, side) bool.
    """
    image = draw_ground(rng, spec.side)
    owner = np.full((spec.side, spec.side), -1)  # index of the shape visible at each pixel
    labels: list[int] = []
    areas: list[int] = []
    for _ in range(rng.integers(1, spec.max_objects + 1)):
        label = int(rng.integers(len(CLASSES)))
        mask = draw_mask(rng, label, spec)
        covered = np.where(mask, len(areas), owner)
        seen = [(covered == i).sum() for i in range(len(areas))]
        if any(part < spec.min_visible * area for part, area in zip(seen, areas, strict=True)):
            continue  # it would occlude an earlier one
        image[mask] = contrasting_color(rng, image[mask].mean(axis=0))
        owner = covered
        labels.append(label)
        areas.append(int(mask.sum()))
    noise = rng.normal(0, rng.uniform(2, 10), image.shape)
    image = np.clip(image + noise, 0, 255).astype(np.uint8)
    return image, [(label, owner == i) for i, label in enumerate(labels)]


def draw_ground(rng: np.random.Generator, side: int) -> np.ndarray:
    """A gradient between two colors, with stripes or blobs: (side, side, 3) float32."""
    rows, columns = np.mgrid[:side, :side] / side
    angle = rng.uniform(0, 2 * np.pi)
    along = rows * np.sin(angle) + columns * np.cos(angle)
    if rng.random() < 0.5:
        texture = np.sin(2 * np.pi * along * rng.uniform(2, 8))
    else:
        coarse = rng.normal(size=(6, 6)).astype(np.float32)
        texture = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    first, second = rng.uniform(30, 225, (2, 3))
    ground = first + (second - first) * along[..., None]
    return (ground + rng.uniform(0, 25) * texture[..., None]).astype(np.float32)


def draw_mask(rng: np.random.Generator, label: int, spec: ShapesSpec) -> np.ndarray:
    """One shape of class ``label`` with random position, size and angle: (side, side) bool."""
    radius = spec.side * rng.uniform(spec.min_diameter, spec.max_diameter) / 2
    center = rng.uniform(0.6 * radius, spec.side - 0.6 * radius, 2)
    mask = np.zeros((spec.side, spec.side), np.uint8)
    if CLASSES[label] == 'circle':
        cv2.circle(mask, center.astype(int).tolist(), int(radius), 1, cv2.FILLED)
    else:
        tilt = np.radians(rng.uniform(-spec.max_tilt, spec.max_tilt))
        points = center + radius * _outline(CLASSES[label], tilt)
        cv2.fillPoly(mask, [points.round().astype(np.int32)], 1)
    return mask.astype(bool)


def _outline(name: str, tilt: float) -> np.ndarray:
    """Corners on the unit circle, (N, 2) as x and y; every other one of a star is at radius 0.45.

    With a tilt of 0 radians, the lower edge of squares and triangles is horizontal.
    """
    corners, upright = {
        'triangle': (3, -np.pi / 2),
        'square': (4, np.pi / 4),
        'star': (10, -np.pi / 2),
    }[name]
    angles = upright + tilt + 2 * np.pi * np.arange(corners) / corners
    radii = np.where((name == 'star') & (np.arange(corners) % 2 == 1), 0.45, 1.0)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def contrasting_color(rng: np.random.Generator, color: np.ndarray) -> np.ndarray:
    """A random BGR color that differs from ``color`` by 60 or more in some channel."""
    while True:
        drawn = rng.uniform(0, 255, 3)
        if np.abs(drawn - color).max() >= 60:
            return drawn


def encode_mask(mask: np.ndarray) -> dict:
    """The COCO fields of a (H, W) bool mask, run-length encoded: polygons cannot have holes."""
    fields = dict(bbox=list(box_of_mask(mask)), area=int(mask.sum()), iscrowd=0)
    return dict(fields, segmentation=encode_runs(mask))
