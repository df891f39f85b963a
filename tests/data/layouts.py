"""Folders as public data sets and tools have them, with generated pixels.

A layout is a dictionary of paths and contents; ``{}`` in a path stands for the numbers of images.
"""

import base64
import csv
import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

Layout = dict[str, Any]

IMAGE = object()  # 96 x 64 pixels, none like another
HEIGHT, WIDTH = 64, 96
Box = Sequence[int]  # left, top, right, bottom
N = range(3)
GRAY = (0, 128, 255)


def boxes(i: int) -> dict[str, Box]:
    """The objects of an image by class, in other places than those of the others."""
    return {'bolt': (5 + i, 10, 35 + i, 30), 'nut': (45, 10 + 2 * i, 75, 30 + 2 * i)}


def write(root: Path, layout: Layout) -> Path:
    rng = np.random.default_rng(0)
    for name, content in layout.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is IMAGE:
            content = rng.integers(0, 255, (64, 96, 3), np.uint8)
        if isinstance(content, np.ndarray):
            content = cv2.imencode(path.suffix, content)[1].tobytes()
        elif isinstance(content, dict | list):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def each(path: str, content: Any = IMAGE, numbers: Sequence[int] = N) -> Layout:
    """The same for several numbers; a content may be a function of the number."""
    return {path.format(i): content(i) if callable(content) else content for i in numbers}


def labels(i: int = 0, values: Sequence[int] = (0, 1, 2)) -> np.ndarray:
    """A label map with all of these values."""
    found = np.random.default_rng(i).integers(0, len(values), (64, 96))
    return np.array(values, np.uint8)[found]


def blurred(i: int) -> np.ndarray:
    return cv2.GaussianBlur(disks(i), (5, 5), 0)


def disks(i: int) -> np.ndarray:
    """A gray mask of one disk."""
    return cv2.circle(np.zeros((64, 96), np.uint8), (30 + i, 30), 12, 255, -1)


def sides(box: Box) -> tuple[int, ...]:
    return box[0], box[1], box[2] - box[0], box[3] - box[1]


def fractions(box: Box) -> list[float]:
    """The corners, normalized by the sides of the image."""
    return [value / side for value, side in zip(box, (WIDTH, HEIGHT) * 2, strict=True)]


def yolo(i: int) -> str:
    found = ''
    for label, box in enumerate(boxes(i).values()):
        left, top, right, bottom = fractions(box)
        values = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
        found += f'{label} {" ".join(map("{:.6f}".format, values))}\n'
    return found


def outline(box: Box) -> list[list[int]]:
    left, top, right, bottom = box
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def voc(name: str, found: dict[str, Box]) -> str:
    """The XML of an image."""
    tags = ('xmin', 'ymin', 'xmax', 'ymax')
    objects = ''.join(
        f'<object>\n<name>{label}</name><pose>Unspecified</pose><difficult>0</difficult><bndbox>'
        + ''.join(f'<{tag}>{v}</{tag}>' for tag, v in zip(tags, box, strict=True))
        + '</bndbox></object>\n'
        for label, box in found.items()
    )
    size = '<size><width>96</width><height>64</height><depth>3</depth></size>'
    return f'<annotation>\n<filename>{name}</filename>\n{size}\n{objects}</annotation>\n'


def coco(names: Sequence[str], **more: Any) -> dict:
    """The JSON of a split."""
    images = [dict(id=i, file_name=n, width=96, height=64, **more) for i, n in enumerate(names, 1)]
    rows = [
        dict(image_id=image['id'], category_id=k, bbox=sides(box), area=600, iscrowd=0,
             segmentation=[np.ravel(outline(box)).tolist()])
        for image in images
        for k, box in enumerate(boxes(image['id'] - 1).values(), 1)
    ]  # fmt: skip
    annotations = [dict(row, id=i) for i, row in enumerate(rows, 1)]
    categories = [dict(id=k, name=name, supercategory='x') for k, name in enumerate(boxes(0), 1)]
    return dict(info={}, images=images, annotations=annotations, categories=categories)


def lines(text: str, numbers: Sequence[int] = N) -> str:
    return ''.join(text.format(i) + '\n' for i in numbers)


def rows(text: str, numbers: Sequence[int] = N) -> str:
    """A line for every box, with its corners ``{b}``, in fractions ``{r}``, and sides ``{s}``."""
    return ''.join(
        text.format(i=i, name=name, b=box, s=sides(box), r=fractions(box)) + '\n'
        for i in numbers
        for name, box in boxes(i).items()
    )


def table(found: Sequence[Sequence[Any]]) -> str:
    """A CSV file, quoted where it must be."""
    text = io.StringIO()
    csv.writer(text).writerows(found)
    return text.getvalue()


def png(mask: np.ndarray) -> str:
    """Supervisely's bitmap."""
    return base64.b64encode(zlib.compress(cv2.imencode('.png', mask)[1].tobytes())).decode()


def bccd() -> Layout:
    """A clone of the repository: a devkit beside scripts, a table and a picture."""
    stem = 'BloodImage_{:05d}'
    found = [{'bolt': (9, 9, 9, 9)}, *map(boxes, range(1, 6))]
    xml = [voc(f'{stem}.jpg'.format(i), each) for i, each in enumerate(found)]
    return {
        'README.md': '# BCCD', 'scripts/split.py': '', 'example.jpg': IMAGE,
        'test.csv': 'filename,cell_type,xmin,xmax,ymin,ymax\n' + lines(f'{stem}.jpg,a,5,35,1,3'),
        **each(f'BCCD/JPEGImages/{stem}.jpg', IMAGE, range(6)),
        **each(f'BCCD/Annotations/{stem}.xml', xml.__getitem__, range(6)),
        'BCCD/ImageSets/Main/train.txt': lines(stem),
        'BCCD/ImageSets/Main/val.txt': lines(stem, [3]),
        'BCCD/ImageSets/Main/test.txt': lines(stem, [4, 5]),
        'BCCD/ImageSets/Main/trainval.txt': lines(stem, range(4)),
    }  # fmt: skip


def camvid() -> Layout:
    """A clone of SegNet's tutorial: pairs of folders beside scripts and pictures."""
    found = {'README.md': 'x', 'Models/segnet.prototxt': 'n', 'Scripts/camvid11.png': labels()}
    for split in ('train', 'val', 'test'):
        found |= each(f'CamVid/{split}/{split}_{{}}.png')
        found |= each(f'CamVid/{split}annot/{split}_{{}}.png', labels)
        line = f'/SegNet/CamVid/{split}/{split}_{{0}}.png /SegNet/CamVid/{split}annot/'
        found[f'CamVid/{split}.txt'] = lines(line + f'{split}_{{0}}.png')
    return found


def coco_2017() -> Layout:
    found = {}
    for split in ('train', 'val'):
        own = coco([f'{split}{i}.jpg' for i in N])
        found |= each(f'{split}2017/{split}{{}}.jpg')
        for kind in ('instances', 'person_keypoints', 'stuff'):
            found[f'annotations/{kind}_{split}2017.json'] = own
        segments = [dict(image_id=1, file_name='0.png', segments_info=[dict(id=3, category_id=1)])]
        found[f'annotations/panoptic_{split}2017.json'] = dict(own, annotations=segments)
        found |= each(f'annotations/panoptic_{split}2017/{split}{{}}.png', labels)
    return found


def lvis() -> Layout:
    found = coco([f'{i:012d}.jpg' for i in N])
    for image in found['images']:
        image['coco_url'] = f'http://images.cocodataset.org/train2017/{image.pop("file_name")}'
    return {'lvis_v1_train.json': found, **each('train2017/{:012d}.jpg')}


def devkits() -> Layout:
    """VOC 2007 and 2012 side by side, one with lists for train and val, one for both in one."""
    found = {}
    for year, stem in (('2007', '00000{}'), ('2012', '2012_00{}')):
        root = f'VOCdevkit/VOC{year}'
        xml = [voc(f'{stem}.jpg'.format(i), boxes(i)) for i in range(5)]
        found |= each(f'{root}/JPEGImages/{stem}.jpg', IMAGE, range(5))
        found |= each(f'{root}/Annotations/{stem}.xml', xml.__getitem__, range(5))
        found |= each(f'{root}/SegmentationClass/{stem}.png', labels, [0, 4])
        found[f'{root}/ImageSets/Main/bolt_train.txt'] = lines(stem + '  1')
        found[f'{root}/ImageSets/Main/trainval.txt'] = lines(stem, range(4))
        found[f'{root}/ImageSets/Main/test.txt'] = lines(stem, [4])
    found['VOCdevkit/VOC2012/ImageSets/Main/train.txt'] = lines('2012_00{}')
    found['VOCdevkit/VOC2012/ImageSets/Main/val.txt'] = lines('2012_00{}', [3])
    return found


def kitti() -> Layout:
    """Calibration files are named as the images and labels."""
    row = '{name} 0.0 0 -1.5 {b[0]} {b[1]} {b[2]} {b[3]} 1.5 1.6 3.2 1.0 1.5 20.0 -1.6'
    other = 'DontCare' + ' -1' * 14 + '\n'
    found = each('training/label_2/{}.txt', lambda i: rows(row, [i]) + other)
    for split in ('training', 'testing'):
        found |= each(f'{split}/image_2/{{}}.png')
        found |= each(f'{split}/calib/{{}}.txt', 'P0: 7.2e+02' + ' 0.0e+00' * 11 + '\nTr: 1\n')
    return found


def supervisely() -> Layout:
    """Polygons with a hole, bitmaps and a rectangle."""

    def annotated(i: int) -> dict:
        bolt, nut = boxes(i).values()
        hole = [[10 + i, 15], [20 + i, 15], [20 + i, 25], [10 + i, 25]]
        first = dict(classTitle='bolt', geometryType='polygon')
        first['points'] = dict(exterior=outline(bolt), interior=[hole])
        second = dict(classTitle='nut', geometryType='bitmap' if i else 'rectangle')
        second['points'] = dict(exterior=outline(nut)[::2], interior=[])
        second['bitmap'] = dict(origin=nut[:2], data=png(np.full((20, 30), 255, np.uint8)))
        return dict(tags=[], size=dict(height=HEIGHT, width=WIDTH), objects=[first, second])

    parts = {f'ds{i + 1}/ann/{i}.png.json': annotated(i) for i in N}
    return {'meta.json': dict(classes=[]), **{f'ds{i + 1}/img/{i}.png': IMAGE for i in N}, **parts}


def via_3() -> Layout:
    kinds = dict(aname='class', type=4, options={'0': 'bolt', '1': 'nut'})
    metadata = {}
    for i in N:
        bolt, nut = boxes(i).values()
        for k, xy in enumerate(([2, *sides(bolt)], [7, *np.ravel(outline(nut)).tolist()])):
            metadata[f'{i}_{k}'] = dict(vid=f'{i}', flg=0, z=[], xy=xy, av={'1': str(k)})
    files = {f'{i}': dict(fid=f'{i}', fname=f'{i}.jpg', type=2) for i in N}
    views = {f'{i}': dict(fid_list=[f'{i}']) for i in N}
    project = dict(attribute={'1': kinds}, file=files, view=views, metadata=metadata)
    return {'via_project.json': project, **each('{}.jpg')}


def label_me() -> Layout:
    """The XML of LabelMe 3.0, as CVAT exports it: polygons in tags of Pascal VOC."""
    xml = '<annotation><filename>{}.jpg</filename><object>{}</object>{}</annotation>'

    def annotated(i: int) -> str:
        points = ''.join(f'<pt><x>{x}</x><y>{y}</y></pt>' for x, y in outline(boxes(i)['bolt']))
        body = f'<name>bolt</name><deleted>\n0\n</deleted><polygon>{points}</polygon>'
        deleted = body.replace('\n0\n', '\n1\n')
        return xml.format(i, body, f'<object>{deleted}</object>')

    return {**each('{}.jpg'), **each('{}.xml', annotated)}


def labelme() -> Layout:
    """A rectangle and a polygon, and paths of another program."""

    def annotated(i: int) -> dict:
        bolt, nut = map(outline, boxes(i).values())
        shapes = (('bolt', 'rectangle', bolt[::2]), ('nut', 'polygon', nut))
        keys = ('label', 'shape_type', 'points', 'group_id')
        found = [dict(zip(keys, (*shape, None), strict=True)) for shape in shapes]
        path = f'..\\x\\{i}.jpg'
        return dict(shapes=found, imagePath=path, imageHeight=HEIGHT, imageWidth=WIDTH)

    return each('{}.jpg') | each('{}.json', annotated)


def cvat() -> Layout:
    """A box and a polygon."""
    body = ''
    for i in N:
        bolt, nut = boxes(i).values()
        sides = zip(('xtl', 'ytl', 'xbr', 'ybr'), bolt, strict=True)
        box = ' '.join(f'{name}="{value}"' for name, value in sides)
        points = ';'.join(f'{x}.0,{y}.0' for x, y in outline(nut))
        body += (
            f'<image id="{i}" name="{i}.jpg" width="{WIDTH}" height="{HEIGHT}">\n'
            f'<box label="bolt" {box}><attribute name="a">1</attribute></box>\n'
            f'<polygon label="nut" points="{points}"></polygon>\n</image>\n'
        )
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n{body}</annotations>\n'
    return each('images/{}.jpg') | {'annotations.xml': text}


def cvat_tracks() -> Layout:
    """The frames of a video, after each of which an object is outside."""
    box = '<box frame="{}" outside="{}" xtl="{}" ytl="{}" xbr="{}" ybr="{}"/>'
    tracks = ''.join(
        f'<track label="{name}">{box.format(i, 0, *sides)}{box.format(i + 1, 1, *sides)}</track>\n'
        for i in N
        for name, sides in boxes(i).items()
    )
    text = f'<annotations>\n{tracks}</annotations>'
    return each('images/frame_{:06d}.jpg') | {'annotations.xml': text}


def regions(i: int, attributes: Callable[[str], dict]) -> list[dict]:
    """VIA's rectangle and polygon."""
    bolt, nut = boxes(i).values()
    shape = dict(zip(('name', 'x', 'y', 'width', 'height'), ('rect', *sides(bolt)), strict=True))
    x, y = zip(*outline(nut), strict=True)
    shapes = (('bolt', shape), ('nut', dict(name='polygon', all_points_x=x, all_points_y=y)))
    return [
        dict(shape_attributes=shape, region_attributes=dict(attributes(name), remark=''))
        for name, shape in shapes
    ]


def via_2() -> Layout:
    """The options of a list that are on."""
    data = {
        f'{i}.jpg9': dict(filename=f'{i}.jpg', size=9,
                          regions=regions(i, lambda name: dict(kind={name: True})))
        for i in N
    }  # fmt: skip
    project = dict(_via_settings={}, _via_img_metadata=data)
    return each('{}.jpg') | {'via_project.json': project}


def via_1() -> Layout:
    data = {}
    for i in N:
        own = {str(k): region for k, region in enumerate(regions(i, lambda name: dict(name=name)))}
        data[f'{i}.jpg9'] = dict(filename=f'{i}.jpg', size=9, regions=own)
    return each('{}.jpg') | {'via_region_data.json': data}


def via_csv() -> Layout:
    found = [('filename', 'file_size', 'region_shape_attributes', 'region_attributes')]
    for i in N:
        for region in regions(i, lambda name: dict(kind=name)):
            found.append((f'{i}.jpg', 9, *map(json.dumps, region.values())))
    return each('{}.jpg') | {'via_region_data.csv': table(found)}


def createml() -> Layout:
    content = []
    for i in N:
        found = []
        for name, (left, top, right, bottom) in boxes(i).items():
            center = dict(x=(left + right) / 2, y=(top + bottom) / 2)
            place = dict(**center, width=right - left, height=bottom - top)
            found.append(dict(label=name, coordinates=place))
        content.append(dict(image=f'{i}.jpg', annotations=found))
    return each('train/{}.jpg') | {'train/_annotations.createml.json': content}


def rectangle(name: str, box: Box) -> dict:
    """Label Studio's, in percent."""
    left, top, right, bottom = (100 * value for value in fractions(box))
    place = dict(x=left, y=top, width=right - left, height=bottom - top, rotation=0)
    return dict(place, rectanglelabels=[name])


def label_studio(name: str = '{}.jpg', stored: str = '{}.jpg') -> Layout:
    """A rectangle and a polygon, and paths of a server."""
    size, tasks = dict(original_width=WIDTH, original_height=HEIGHT), []
    for i in N:
        bolt, nut = boxes(i).values()
        points = [[100 * x / WIDTH, 100 * y / HEIGHT] for x, y in outline(nut)]
        values = (rectangle('bolt', bolt), dict(points=points, polygonlabels=['nut']))
        result = [dict(type=list(value)[-1], value=value, **size) for value in values]
        address = f'/data/upload/1/0a1b2c3d-{stored}'.format(i)
        annotations = [dict(result=result, was_cancelled=False)]
        tasks.append(dict(id=1, data=dict(image=address), annotations=annotations))
    return each(f'images/{name}') | {'project-1.json': tasks}


def label_studio_rows() -> list[dict]:
    """An export without the tasks."""
    size, found = dict(original_width=WIDTH, original_height=HEIGHT), []
    for i in N:
        label = [dict(rectangle(*item), **size) for item in boxes(i).items()]
        found.append(dict(image=f'/data/local-files/?d=some%20where/{i}.jpg', id=1, label=label))
    return found


def label_studio_csv() -> Layout:
    found = [(row['image'], 1, json.dumps(row['label'])) for row in label_studio_rows()]
    text = table([('image', 'id', 'label'), *found])
    return each('images/{}.jpg') | {'export.csv': text}


def splits(*names: str, classes: tuple[str, ...] = ('bolt', 'nut')) -> Layout:
    """Class folders."""
    return {
        f'{split}/{name}/{split.replace("/", "_")}{name}{i}.JPEG': IMAGE
        for split in names
        for name in classes
        for i in N
    }


def both(images: str, maps: str, draw: Any, suffix: str = '.png') -> Layout:
    return {**each(f'{images}.jpg'), **each(f'{maps}{suffix}', draw)}


def numbered(i: int) -> np.ndarray:
    """A map that numbers its objects."""
    return labels(i, range(i + 2))


def colored(i: int = 0) -> np.ndarray:
    return np.array([[0, 0, 0], [0, 0, 128], [0, 128, 0]], np.uint8)[labels(i)]


def cityscapes() -> Layout:
    """An export of CVAT: a table of colors, and a map of colors beside those of numbers."""
    found = {'label_colors.txt': COLORS, **each('imgsFine/leftImg8bit/train/{}_leftImg8bit.png')}
    for kind, draw in (('color', colored), ('labelIds', labels), ('instanceIds', numbered)):
        found |= each(f'gtFine/train/{{}}_gtFine_{kind}.png', draw)
    return found


COLORS = '0 0 0 background\n128 0 0 bolt\n0 128 0\tnut\n'
