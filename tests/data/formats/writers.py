"""Generated shapes in the formats of labeling tools."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.data.shapes import CLASSES
from tests.data.sets import box_line, box_of, drawn

COUNT, SIDE = 6, 64
Item = tuple[str, np.ndarray]  # class and mask


def images(root: Path, folder: str = 'images') -> Iterator[tuple[str, list[Item]]]:
    """Write images, and yield the stem and the objects of each."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    for number in range(COUNT):
        image, instances = drawn(0, number)
        cv2.imwrite(str(root / folder / f'{number}.jpg'), image)
        yield str(number), [(CLASSES[label], mask) for label, mask in instances]


def corners(mask: np.ndarray) -> list[int]:
    return [int(value) for value in box_of(mask)]


def outline(mask: np.ndarray) -> list[list[int]]:
    """The corners of a polygon with the box of the mask."""
    left, top, right, bottom = corners(mask)
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def dump(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def labelme(root: Path) -> None:
    for stem, items in images(root, '.'):
        shapes = [dict(label=name, points=outline(mask), shape_type='polygon', group_id=None)
                  for name, mask in items]  # fmt: skip
        first = shapes[0]
        first.update(shape_type='rectangle', points=first['points'][::2])
        size = dict(imageHeight=SIDE, imageWidth=SIDE)
        dump(root / f'{stem}.json', dict(shapes=shapes, imagePath=f'..\\x\\{stem}.jpg', **size))


def cvat(root: Path) -> None:
    body = ''
    for stem, items in images(root):
        body += f'<image id="{stem}" name="{stem}.jpg" width="{SIDE}" height="{SIDE}">\n'
        for number, (name, mask) in enumerate(items):
            left, top, right, bottom = corners(mask)
            if number % 2:
                points = ';'.join(f'{x}.0,{y}.0' for x, y in outline(mask))
                body += f'<polygon label="{name}" points="{points}"></polygon>\n'
            else:
                body += f'<box label="{name}" xtl="{left}" ytl="{top}" xbr="{right}" '
                body += f'ybr="{bottom}"><attribute name="a">1</attribute></box>\n'
        body += '</image>\n'
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n{body}</annotations>\n'
    (root / 'annotations.xml').write_text(text)


def cvat_tracks(root: Path) -> None:
    found = list(images(root))
    for stem, _ in found:
        (root / 'images' / f'{stem}.jpg').rename(root / 'images' / f'frame_{int(stem):06d}.jpg')
    body = ''
    for name in CLASSES:
        boxes = [(stem, corners(mask)) for stem, items in found for n, mask in items if n == name]
        for stem, (left, top, right, bottom) in boxes:
            body += f'<track label="{name}">'
            for frame, outside in ((int(stem), 0), (int(stem) + 1, 1)):
                body += f'<box frame="{frame}" outside="{outside}" xtl="{left}" ytl="{top}" '
                body += f'xbr="{right}" ybr="{bottom}"/>'
            body += '</track>\n'
    (root / 'annotations.xml').write_text(f'<annotations>\n{body}</annotations>')


def via_regions(items: list[Item], key: str | None) -> list[dict]:
    regions = []
    for number, (name, mask) in enumerate(items):
        left, top, right, bottom = corners(mask)
        x, y = zip(*outline(mask), strict=True)
        shape = dict(name='rect', x=left, y=top, width=right - left, height=bottom - top)
        if number % 2:
            shape = dict(name='polygon', all_points_x=x, all_points_y=y)
        attributes = {key: name, 'remark': ''} if key else {}
        regions.append(dict(shape_attributes=shape, region_attributes=attributes))
    return regions


def via(root: Path) -> None:
    """Version 2, with the options of a list that are on."""
    data = {}
    for stem, items in images(root, '.'):
        regions = via_regions(items, 'kind')
        for region in regions:
            region['region_attributes']['kind'] = {region['region_attributes']['kind']: True}
        data[f'{stem}.jpg9'] = dict(filename=f'{stem}.jpg', size=9, regions=regions)
    dump(root / 'via_project.json', dict(_via_settings={}, _via_img_metadata=data))


def via_1(root: Path) -> None:
    data = {}
    for stem, items in images(root, '.'):
        regions = {str(i): each for i, each in enumerate(via_regions(items, 'name'))}
        data[f'{stem}.jpg9'] = dict(filename=f'{stem}.jpg', size=9, regions=regions)
    dump(root / 'via_region_data.json', data)


def via_csv(root: Path) -> None:
    rows = [('filename', 'file_size', 'region_shape_attributes', 'region_attributes')]
    for stem, items in images(root, '.'):
        for region in via_regions(items, 'kind'):
            rows.append((f'{stem}.jpg', 9, *map(json.dumps, region.values())))
    table(root / 'via_region_data.csv', rows)


def table(path: Path, rows: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', newline='') as file:
        csv.writer(file).writerows(rows)


def createml(root: Path) -> None:
    content = []
    for stem, items in images(root, 'train'):
        rows = []
        for name, mask in items:
            left, top, right, bottom = corners(mask)
            center = dict(x=(left + right) / 2, y=(top + bottom) / 2)
            sides = dict(width=right - left, height=bottom - top)
            rows.append(dict(label=name, coordinates={**center, **sides}))
        content.append(dict(image=f'{stem}.jpg', annotations=rows))
    dump(root / 'train' / '_annotations.createml.json', content)


def percent(mask: np.ndarray) -> dict[str, float]:
    left, top, right, bottom = (100 * value / SIDE for value in corners(mask))
    return dict(x=left, y=top, width=right - left, height=bottom - top, rotation=0)


def label_studio(root: Path) -> None:
    tasks = []
    for stem, items in images(root):
        result = []
        for number, (name, mask) in enumerate(items):
            value, kind = dict(percent(mask), rectanglelabels=[name]), 'rectanglelabels'
            if number % 2:
                points = [[100 * x / SIDE, 100 * y / SIDE] for x, y in outline(mask)]
                value, kind = dict(points=points, polygonlabels=[name]), 'polygonlabels'
            size = dict(original_width=SIDE, original_height=SIDE)
            result.append(dict(type=kind, value=value, **size))
        annotations = [dict(result=result, was_cancelled=False)]
        address = f'/data/upload/1/0a1b2c3d-{stem}.jpg'
        tasks.append(dict(id=1, data=dict(image=address), annotations=annotations))
    dump(root / 'project-1.json', tasks)


def label_studio_rows(root: Path) -> list[dict]:
    return [
        dict(
            image=f'/data/local-files/?d=some%20where/{stem}.jpg',
            id=1,
            label=[
                dict(percent(m), rectanglelabels=[n], original_width=SIDE, original_height=SIDE)
                for n, m in items
            ],
        )
        for stem, items in images(root)
    ]


def label_studio_min(root: Path) -> None:
    dump(root / 'export.json', label_studio_rows(root))


def label_studio_csv(root: Path) -> None:
    rows = [(row['image'], 1, json.dumps(row['label'])) for row in label_studio_rows(root)]
    table(root / 'export.csv', [('image', 'id', 'label'), *rows])


def supervisely(root: Path) -> None:
    for stem, items in images(root, 'ds/img'):
        objects = [
            dict(
                classTitle=name,
                geometryType='polygon' if number % 2 else 'rectangle',
                points=dict(
                    exterior=outline(mask)[:: 1 if number % 2 else 2],
                    interior=[],
                ),
            )
            for number, (name, mask) in enumerate(items)
        ]
        size = dict(height=SIDE, width=SIDE)
        dump(root / 'ds' / 'ann' / f'{stem}.jpg.json', dict(size=size, tags=[], objects=objects))
    dump(root / 'meta.json', dict(classes=[dict(title=name) for name in CLASSES]))


def kitti(root: Path) -> None:
    (root / 'training' / 'label_2').mkdir(parents=True)
    for stem, items in images(root, 'training/image_2'):
        lines = [
            f'{name} 0.00 0 -1.5 {" ".join(map(str, corners(mask)))} 1.6 1.9 3.4 -0.6 1.7 8.4 0.01'
            for name, mask in items
        ]
        lines.append('DontCare -1 -1 -10 1 1 9 9 -1 -1 -1 -1000 -1000 -1000 -10')
        (root / 'training' / 'label_2' / f'{stem}.txt').write_text('\n'.join(lines) + '\n')


def tensorflow(root: Path) -> None:
    """The columns in an order of their own."""
    rows: list[tuple] = [('xmax', 'ymax', 'class', 'filename', 'xmin', 'ymin', 'width', 'height')]
    for stem, items in images(root):
        for name, mask in items:
            left, top, right, bottom = corners(mask)
            rows.append((right, bottom, name, f'{stem}.jpg', left, top, SIDE, SIDE))
    table(root / 'train_labels.csv', rows)


def retinanet(root: Path) -> None:
    rows: list[tuple] = []
    for stem, items in images(root):
        rows += [(f'images/{stem}.jpg', *corners(mask), name) for name, mask in items]
    table(root / 'annotations.csv', rows)
    table(root / 'classes.csv', [(name, i) for i, name in enumerate(CLASSES)])


def open_images(root: Path) -> None:
    """Normalized columns, in an order of their own, with codes of the classes."""
    rows: list[tuple] = [('ImageID', 'Source', 'LabelName', 'Confidence', 'XMin', 'XMax', 'YMin',
                          'YMax', 'IsGroupOf')]  # fmt: skip
    for stem, items in images(root):
        for name, mask in items:
            left, top, right, bottom = (value / SIDE for value in corners(mask))
            code = f'/m/0{CLASSES.index(name)}'
            rows.append((stem, 'x', code, 1, left, right, top, bottom, 0))
    table(root / 'train-annotations-bbox.csv', rows)
    names = [(f'/m/0{i}', name) for i, name in enumerate(CLASSES)]
    table(root / 'class-descriptions-boxable.csv', names)


def yolo_lines(items: list[Item]) -> str:
    return ''.join(f'{box_line(CLASSES.index(name), mask)}\n' for name, mask in items)


def darknet(root: Path) -> None:
    """Paths that begin in another folder."""
    listed = []
    for stem, items in images(root, 'obj_train_data'):
        (root / 'obj_train_data' / f'{stem}.txt').write_text(yolo_lines(items))
        listed.append(f'data/obj_train_data/{stem}.jpg\n')
    (root / 'train.txt').write_text(''.join(listed))
    (root / 'obj.names').write_text(''.join(f'{name}\n' for name in CLASSES))
    (root / 'obj.data').write_text('classes = 4\ntrain = data/train.txt\nnames = data/obj.names\n')


def yolo_in_one_folder(root: Path) -> None:
    for stem, items in images(root, '.'):
        (root / f'{stem}.txt').write_text(yolo_lines(items))
    (root / 'classes.txt').write_text('\n'.join(CLASSES))


def yolo_notes(root: Path) -> None:
    (root / 'labels').mkdir(parents=True)
    for stem, items in images(root):
        (root / 'labels' / f'{stem}.txt').write_text(yolo_lines(items))
    categories = [dict(id=i, name=name) for i, name in enumerate(CLASSES)]
    dump(root / 'notes.json', dict(categories=categories[::-1]))


def voc_deeper(root: Path) -> None:
    """A devkit two folders below, with lists."""
    base = root / 'VOCdevkit' / 'VOC2012'
    for name in ('Annotations', 'ImageSets/Main'):
        (base / name).mkdir(parents=True)
    for stem, items in images(base, 'JPEGImages'):
        objects = ''
        for name, mask in items:
            pairs = zip(('xmin', 'ymin', 'xmax', 'ymax'), corners(mask), strict=True)
            box = ''.join(f'<{tag}>{value}</{tag}>' for tag, value in pairs)
            objects += f'<object><name>{name}</name><difficult/><bndbox>{box}</bndbox></object>\n'
        text = f'<annotation>\n<filename>{stem}.jpg</filename>\n{objects}</annotation>\n'
        (base / 'Annotations' / f'{stem}.xml').write_text(text)
    (base / 'ImageSets' / 'Main' / 'train.txt').write_text('\n'.join(map(str, range(COUNT))))


WRITERS: dict[str, tuple[Callable[[Path], None], str]] = {  # with the format that is detected
    'labelme': (labelme, 'labelme'),
    'CVAT': (cvat, 'cvat'),
    'CVAT, tracks': (cvat_tracks, 'cvat'),
    'VIA 2': (via, 'via'),
    'VIA 1': (via_1, 'via'),
    'VIA, CSV': (via_csv, 'via'),
    'CreateML': (createml, 'createml'),
    'Label Studio': (label_studio, 'label-studio'),
    'Label Studio, JSON-MIN': (label_studio_min, 'label-studio'),
    'Label Studio, CSV': (label_studio_csv, 'label-studio'),
    'Supervisely': (supervisely, 'supervisely'),
    'KITTI': (kitti, 'kitti'),
    'CSV of TensorFlow': (tensorflow, 'csv'),
    'CSV of RetinaNet': (retinanet, 'csv'),
    'CSV of Open Images': (open_images, 'csv'),
    'darknet': (darknet, 'darknet'),
    'labels beside images': (yolo_in_one_folder, 'darknet'),
    'names in notes.json': (yolo_notes, 'darknet'),
    'VOC below': (voc_deeper, 'voc'),
}
