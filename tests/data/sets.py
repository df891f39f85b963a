"""Generated shapes in the formats that users have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmeffvit.data.records import DataSet
from mmeffvit.data.shapes import CLASSES, ShapesSpec, draw_image, encode_mask

SPEC = ShapesSpec(side=64, max_objects=3)
COLORS = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0))  # RGB, ground first
Instances = list[tuple[int, np.ndarray]]


def drawn(seed: int, number: int, spec: ShapesSpec = SPEC) -> tuple[np.ndarray, Instances]:
    return draw_image(np.random.default_rng((seed, number)), spec)


def box_of(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom."""
    rows, columns = np.where(mask)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def outline_of(mask: np.ndarray) -> np.ndarray:
    """Corners of the largest part, (N, 2)."""
    found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return max(found, key=cv2.contourArea)[:, 0]


def box_line(label: int, mask: np.ndarray) -> str:
    left, top, right, bottom = box_of(mask)
    height, width = mask.shape
    values = ((left + right) / 2 / width, (top + bottom) / 2 / height)
    values += ((right - left) / width, (bottom - top) / height)
    return ' '.join([str(label), *(f'{value:.6f}' for value in values)])


def polygon_line(label: int, mask: np.ndarray) -> str:
    points = outline_of(mask) / mask.shape[::-1]
    return ' '.join([str(label), *(f'{value:.6f}' for value in points.ravel())])


def write_yolo(
    root: Path,
    train: int = 6,
    val: int = 3,
    *,
    line: Callable[[int, np.ndarray], str] = box_line,
    spec: ShapesSpec = SPEC,
) -> Path:
    """``images/SPLIT/N.png`` and ``labels/SPLIT/N.txt``."""
    for split, count in (('train', train), ('val', val)):
        for kind in ('images', 'labels') if count else ():
            (root / kind / split).mkdir(parents=True)
        for number in range(count):
            image, instances = drawn(split == 'val', number, spec)
            cv2.imwrite(str(root / 'images' / split / f'{split}_{number}.png'), image)
            text = ''.join(f'{line(*instance)}\n' for instance in instances)
            (root / 'labels' / split / f'{split}_{number}.txt').write_text(text)
    names = '\n'.join(f'  {i}: {name}' for i, name in enumerate(CLASSES))
    splits = 'train: images/train\n' + ('val: images/val\n' if val else '')
    (root / 'data.yaml').write_text(f'{splits}names:\n{names}\n')
    return root


def write_roboflow(root: Path) -> Path:
    """``SPLIT/_annotations.coco.json`` beside the images, with the project as first category."""
    for split, count in (('train', 6), ('valid', 3)):
        (root / split).mkdir(parents=True)
        images, annotations = [], []
        for number in range(count):
            image, instances = drawn(split == 'valid', number)
            name = f'{number}_png.rf.0a1b.png'
            cv2.imwrite(str(root / split / name), image)
            images.append(dict(id=number, file_name=name, height=64, width=64))
            for label, mask in instances:
                row = dict(id=len(annotations), image_id=number, category_id=label + 1)
                annotations.append(row | encode_mask(mask))
        categories = [dict(id=0, name='shapes', supercategory='none')]
        categories += [
            dict(id=i, name=name, supercategory='shapes') for i, name in enumerate(CLASSES, 1)
        ]
        content = dict(images=images, annotations=annotations, categories=categories)
        (root / split / '_annotations.coco.json').write_text(json.dumps(content))
    return root


def write_voc(root: Path, count: int = 8, *, lists: bool = True) -> Path:
    """``JPEGImages/N.jpg``, ``Annotations/N.xml`` and ``ImageSets/Main/SPLIT.txt``."""
    for name in ('JPEGImages', 'Annotations', 'ImageSets/Main'):
        (root / name).mkdir(parents=True)
    for number in range(count):
        image, instances = drawn(0, number)
        cv2.imwrite(str(root / 'JPEGImages' / f'{number}.jpg'), image)
        objects = ''
        for label, mask in instances:
            corners = zip(('xmin', 'ymin', 'xmax', 'ymax'), box_of(mask), strict=True)
            box = ''.join(f'<{tag}>{value}</{tag}>' for tag, value in corners)
            objects += (
                f'<object>\n<name>{CLASSES[label]}</name>\n<bndbox>{box}</bndbox>\n</object>\n'
            )
        size = '<size><width>64</width><height>64</height><depth>3</depth></size>'
        text = f'<annotation>\n<filename>{number}.jpg</filename>\n{size}\n{objects}</annotation>\n'
        (root / 'Annotations' / f'{number}.xml').write_text(text)
    for name, numbers in (('train', range(count - 2)), ('val', range(count - 2, count))):
        if lists:
            text = ''.join(f'{number}\n' for number in numbers)
            (root / 'ImageSets/Main' / f'{name}.txt').write_text(text)
    return root


def write_maps(root: Path, count: int = 6, *, kind: str = 'values', table: str = '') -> Path:
    """``images/N.jpg`` and ``masks/N.png``: values, a palette, colors, or 0 and 255."""
    (root / 'images').mkdir(parents=True)
    (root / 'masks').mkdir()
    for number in range(count):
        image, instances = drawn(0, number)
        labels = np.zeros((64, 64), np.uint8)
        for label, mask in instances:
            labels[mask] = label + 1
        cv2.imwrite(str(root / 'images' / f'{number}.jpg'), image)
        path = str(root / 'masks' / f'{number}.png')
        if kind == 'colors':
            cv2.imwrite(path, np.array(COLORS, np.uint8)[labels][..., ::-1])
        elif kind == 'palette':
            from PIL import Image

            picture = Image.fromarray(labels, 'P')
            picture.putpalette([value for color in COLORS for value in color])
            picture.save(path)
        else:
            cv2.imwrite(path, labels if kind == 'values' else 255 * (labels > 0).astype(np.uint8))
    if table:
        rows = [('ground', COLORS[0]), *zip(CLASSES, COLORS[1:], strict=True)]
        lines = {
            'classes.txt': [name for name, _ in rows],
            'classes.csv': ['name,r,g,b', *(f'{n},{r},{g},{b}' for n, (r, g, b) in rows)],
            'labelmap.txt': ['# label:color_rgb:parts:actions',
                             *(f'{n}:{r},{g},{b}::' for n, (r, g, b) in rows)],
            'data.yaml': ['masks_dir: masks', 'names:',
                          *(f'  "{k}": {n}' for k, (n, _) in enumerate(rows))],
        }[table]  # fmt: skip
        (root / table).write_text('\n'.join(lines))
    return root


def edit_json(path: Path, change: Callable[[Any], object]) -> None:
    """Change the content of a file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def files_in(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob('*') if p.is_file()}


def counts(data: DataSet) -> dict[str, int]:
    return {split: len(part) for split, part in data.splits.items()}
