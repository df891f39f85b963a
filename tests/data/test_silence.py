"""Nothing of a dataset is dropped in silence, and what would teach nothing is an error."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import init_default_scope
from PIL import Image

from mmeffvit.data import faults
from mmeffvit.data.check import check
from mmeffvit.data.detect import detect
from mmeffvit.data.faults import Fault, Findings, Grade
from mmeffvit.data.prepare import (
    PrepareOptions,
    check_trainable,
    leave_out_broken,
    prepare,
    read,
)
from mmeffvit.data.records import DataSet, Object, Picture, split_in
from mmeffvit.data.write import write_label_maps
from mmeffvit.errors import UserError
from mmeffvit.registry import TRANSFORMS
from mmeffvit.train.folder.base import Base, Start
from mmeffvit.train.folder.recipe import Overrides
from mmeffvit.train.folder.write_config import model_part
from mmeffvit.utils.files import locked
from mmeffvit.utils.images import read_labels
from tests.data import layouts
from tests.data.layouts import IMAGE, boxes, disks, each, labels, voc
from tests.data.public_layouts import READ
from tests.data.sets import counts, edit_json, polygon_line, write_roboflow, write_voc, write_yolo


def test_only_crowds_are_an_error_and_objects_on_request(tmp_path, capsys):
    root = write_roboflow(tmp_path / 'data')
    for path in root.rglob('*.json'):
        edit_json(path, lambda content: [row.update(iscrowd=1) for row in content['annotations']])
    with pytest.raises(UserError, match=r'crowd region .*\n?.*--crowds-are-objects'):
        prepare(root, tmp_path / 'a', PrepareOptions())
    data, _ = prepare(root, tmp_path / 'b', PrepareOptions(crowds_are_objects=True))
    assert data.count('train').total() > 6
    assert not any(item.is_crowd for item in data.objects())


def test_a_validation_split_without_objects_is_an_error(tmp_path):
    root = write_yolo(tmp_path / 'data')
    for path in (root / 'labels' / 'val').iterdir():
        path.write_text('')
    with pytest.raises(UserError, match='no object in any image of val'):
        prepare(root, tmp_path / 'index', PrepareOptions())


def test_smaller_objects_are_on_top_of_label_maps_and_a_covered_class_is_an_error(tmp_path):
    root = write_yolo(tmp_path / 'data', line=polygon_line)
    path = root / 'labels' / 'train' / 'train_0.txt'
    large, small = '0 0 0 1 0 1 1 0 1\n', '1 .4 .4 .6 .4 .6 .6 .4 .6\n'
    for text in (large + small, small + large):
        path.write_text(text)
        prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True))
        labels = read_labels(tmp_path / 'index' / 'train' / '000001.png')
        assert (labels[32, 32], labels[2, 2]) == (2, 1)
    for other in root.rglob('*.txt'):
        other.write_text(other.read_text().replace('3 ', '1 ', 1) if 'val' in other.name else small)
    path.write_text(small.replace('1', '3', 1) + small)
    with pytest.raises(UserError, match='without a pixel of star'):
        prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True))


def test_crowds_are_ignored_in_label_maps_and_their_class_need_not_be_drawn(tmp_path):
    root = write_roboflow(tmp_path / 'data')
    for path in root.rglob('*.json'):
        edit_json(
            path, lambda c: [a.update(iscrowd=a['category_id'] == 1) for a in c['annotations']]
        )
    maps = []
    for crowds in (False, True):
        options = PrepareOptions(for_segmentor=True, crowds_are_objects=crowds)
        prepare(root, tmp_path / f'{crowds}', options)
        paths = sorted((tmp_path / f'{crowds}' / 'train').iterdir())
        maps.append(np.stack(list(map(read_labels, paths))))
    changed = maps[0] != maps[1]
    assert {*maps[0][changed]} == {255}
    assert len({*maps[1][changed]}) == 1


def test_255_classes_of_objects_are_one_too_many_with_background(tmp_path):
    picture = Picture(tmp_path, [Object(0, (1, 1, 9, 9), '', [[1, 1, 9, 1, 9, 9]])])
    data = DataSet('', tmp_path, [f'{i}' for i in range(255)], {'train': [picture]}, Findings())
    with pytest.raises(UserError, match='256 classes with background; give up to 255'):
        write_label_maps(data, tmp_path)


def test_label_maps_to_validate_on_alone_are_an_error(tmp_path):
    splits = dict(train=[], val=[Picture(tmp_path)])
    with pytest.raises(UserError, match='no object in any training image'):
        check_trainable(DataSet('', tmp_path, ['a'], splits, Findings(), {0: 0}))


def test_advice_for_a_config_names_no_option_of_a_folder(tmp_path):
    def of(**content: object) -> DataSet:
        splits = {'val': [Picture(tmp_path, **content)]}
        return DataSet('', tmp_path, ['a'], splits, Findings(name='val'))

    crowd = Object(0, (1, 1, 9, 9), '', is_crowd=True)
    with pytest.raises(UserError, match='annotate them, or --no-check trains anyway'):
        check_trainable(of())
    with pytest.raises(UserError, match='nothing would be learned: correct them'):
        check_trainable(of(objects=[crowd]))
    with pytest.raises(UserError, match='see above: --no-check trains anyway'):
        leave_out_broken(of(num_broken=1), PrepareOptions())


def test_limits_below_the_objects_of_an_image_are_raised():
    model = dict(test_cfg=dict(rcnn=dict(max_per_img=100, nms_pre=1000)), num_queries=300,
                 bbox_head=dict(max_per_img=-1), backbone={})  # fmt: skip
    base = Base('x', Config(dict(default_scope='mmdet', model=model)))

    def written(objects: int) -> str:
        start = Start('x', keeps_backbone=True)
        return model_part(base, None, Overrides(), start, objects)[1]

    assert written(100) == 'model = dict()'
    expected = 'model = dict(test_cfg=dict(rcnn=dict(max_per_img=500)), num_queries=500)'
    assert written(420) == expected


@pytest.mark.parametrize(
    ('count', 'fault', 'grade'),
    [
        (1, faults.BOX_EMPTY, Grade.NOTE),
        (10, faults.BOX_EMPTY, Grade.NOTE),
        (11, faults.BOX_EMPTY, Grade.WARNING),
        (51, faults.BOX_EMPTY, Grade.ERROR),
        (50, faults.BOX_OUTSIDE, Grade.WARNING),
        (51, faults.BOX_OUTSIDE, Grade.ERROR),
        (1, faults.CLASS_RANGE, Grade.ERROR),
        (1, faults.LIST_BROKEN, Grade.ERROR),
        (10, faults.IMAGE_BROKEN, Grade.WARNING),
        (11, faults.IMAGE_BROKEN, Grade.ERROR),
        (900, faults.IMAGE_CUT, Grade.NOTE),
    ],
)
def test_the_grade_of_a_fault_follows_from_its_share(count, fault: Fault, grade):
    for strict in (False, True):
        findings = Findings(num_records=1000, num_images=200, strict=strict)
        for place in range(count):
            findings.add(fault, place)
        is_worse = strict and grade is Grade.WARNING
        assert findings.grade(fault) is (Grade.ERROR if is_worse else grade)


def test_a_few_broken_images_and_objects_are_left_out_and_training_goes_on(tmp_path, capsys):
    root = write_yolo(tmp_path / 'data', train=60, val=5)
    (root / 'images' / 'train' / 'train_7.png').write_bytes(b'x')
    path = root / 'labels' / 'train' / 'train_8.txt'
    path.write_text(path.read_text() + '0 0.9 0.5 0.6 0.2\n')
    _, splits = prepare(root, tmp_path / 'index', PrepareOptions())
    said = capsys.readouterr().out
    assert splits['train'].count == 58
    assert f'warning: {faults.IMAGE_BROKEN.what} (1)' in said
    assert 'left out: 1 image (' in said
    assert f'1 object ({faults.BOX_OUTSIDE.what})' in said
    assert 'images with broken objects: 1' in said
    assert 'train_8.txt, line' in (tmp_path / 'index' / 'faults.txt').read_text()
    with pytest.raises(UserError, match='the dataset has errors'):
        prepare(root, tmp_path / 'strict', PrepareOptions(strict=True))


def test_a_jpeg_without_its_last_bytes_is_read_in_training_as_well(tmp_path, capsys):
    root = write_voc(tmp_path / 'data')
    path = root / 'JPEGImages' / '0.jpg'
    whole = cv2.imread(str(path))
    path.write_bytes(path.read_bytes()[:-20])
    prepare(root, tmp_path / 'index', PrepareOptions())
    assert f'note: {faults.IMAGE_CUT.what} (1)' in capsys.readouterr().out
    init_default_scope('mmdet')
    load = TRANSFORMS.build(dict(type='mmeffvit.LoadCutImage'))
    image = load(dict(img_path=str(path)))['img']
    assert image.shape == whole.shape
    assert (image[:40] == whole[:40]).all()
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    with pytest.raises(UserError, match=faults.IMAGE_BROKEN.what):
        prepare(root, tmp_path / 'index', PrepareOptions())


def test_spellings_and_missing_values_are_completed_and_noted(tmp_path, capsys):
    import unicodedata

    root = write_roboflow(tmp_path / 'data')
    path = root / 'train' / '_annotations.coco.json'
    content = json.loads(path.read_text())
    names = {0: 'caf\u00e9.png', 1: 'a%20b.png', 2: 'x\\c.png', 3: 'D.JPG'}
    files = {0: unicodedata.normalize('NFD', 'caf\u00e9.png'), 1: 'a b.png', 2: 'c.png', 3: 'd.png'}
    for record in content['images']:
        number = record['id']
        if number in names:
            old = root / 'train' / record['file_name']
            old.rename(old.with_name(files[number]))
            record['file_name'] = names[number]
        record.update(height=-1 if number else 0, width=None)
    for row in content['annotations']:
        for key in ('id', 'bbox', 'area'):
            del row[key]
    path.write_text(json.dumps(content))
    data, splits = prepare(root, tmp_path / 'index', PrepareOptions())
    assert splits['train'].count == 6
    found = data.findings.counts
    assert found[faults.FILLED] == 4
    assert found[faults.NAME_SPELLED] >= 3
    assert not data.findings.faults
    true = write_roboflow(tmp_path / 'true')
    sound, _ = prepare(true, tmp_path / 'other', PrepareOptions())
    boxes = [sorted(i.box for i in each.objects('train')) for each in (data, sound)]
    assert np.allclose(*boxes)


def test_a_test_split_without_objects_measures_nothing_and_is_not_used(tmp_path, capsys):
    root = write_yolo(tmp_path / 'data', val=0)
    layouts.write(root, each('images/test/t{}.png'))
    path = root / 'data.yaml'
    path.write_text(f'test: images/test\n{path.read_text()}')
    data, written = prepare(root, tmp_path / 'index', PrepareOptions())
    assert counts(data) == dict(train=5, val=1)
    assert 'test' not in written
    assert 'no object in the 3 images of test, which is not used' in capsys.readouterr().out


@pytest.mark.parametrize('suffix', ['xml', 'json'])
def test_an_old_name_in_a_file_does_not_move_its_objects_to_another_image(suffix, tmp_path):
    """Files that were renamed with their images, as by filling a gap."""
    layout = each('{}.jpg') | each('{}.xml', lambda i: voc(f'{i + 1}.jpg', boxes(i)))
    if suffix == 'json':
        layout = {
            name: dict(content, imagePath=f'{int(name[0]) + 1}.jpg') if '.json' in name else content
            for name, content in layouts.labelme().items()
        }
    data = detect(layouts.write(tmp_path, layout)).read()
    found = {p.path.stem: p.objects[0].box[0] for p in data.splits['train']}
    assert found == {str(i): boxes(i)['bolt'][0] for i in range(3)}
    assert data.findings.counts == {faults.NAME_OLD: 2}


def test_two_files_for_one_image_are_a_fault_of_labelme(tmp_path):
    layout = layouts.labelme()
    layout = {**layout, 'copy of 0.json': layout['0.json']}
    data = detect(layouts.write(tmp_path, layout)).read()
    assert data.findings.counts[faults.IMAGE_LISTED_TWICE] == 1
    assert sum(len(p.objects) for p in data.splits['train']) == 6


def test_a_class_of_two_words_keeps_the_columns_of_kitti(tmp_path):
    layout = READ['KITTI'][0]
    layout = {
        name: content.replace('bolt', 'traffic light') if isinstance(content, str) else content
        for name, content in layout.items()
    }
    data = detect(layouts.write(tmp_path, layout)).read()
    assert data.classes == ['nut', 'traffic light']
    first = next(p for p in data.splits['train'] if p.path.stem == '0')
    assert first.objects[0].box == layouts.sides(boxes(0)['bolt'])


def test_the_folder_of_yolo_may_be_elsewhere_and_its_labels_spelled_differently(tmp_path):
    text = 'path: ../ds\ntrain: images/a\nvalidation: images/b\nnames: [bolt, nut]\n'
    layout = {'cfg/data.yaml': text}
    for image, label in (
        ('a/IMG_{}', 'a/img_{}.txt'),
        ('b/{}', 'b/{}.TXT'),
        ('c/c{}', 'c/c{}.txt'),
    ):
        layout |= each(f'ds/images/{image}.jpg') | each(f'ds/labels/{label}', layouts.yolo)
    data = detect(layouts.write(tmp_path, layout) / 'cfg').read()
    assert counts(data) == dict(train=3, val=3)
    assert [data.count(split).total() for split in data.splits] == [6, 6]
    assert data.findings.counts == {faults.NAME_SPELLED: 6}


def test_images_of_another_export_around_it_are_not_read(tmp_path):
    layout = READ['Roboflow without a test split'][0]
    layouts.write(tmp_path, {f'inner/{name}': content for name, content in layout.items()})
    layouts.write(tmp_path, each('train/images/other{}.jpg'))
    data = detect(tmp_path / 'inner').read()
    assert {p.path.parent for p in data.splits['train']} == {tmp_path / 'inner/train/images'}


@pytest.mark.parametrize(
    ('names', 'classes'), [('road', ['background', 'road']), ('ground\nroad', ['ground', 'road'])]
)
def test_maps_of_0_and_255_are_background_and_foreground_with_names_as_well(
    names, classes, tmp_path
):
    layout = each('images/{}.jpg') | each('masks/{}.png', disks) | {'classes.txt': names}
    data, _ = prepare(
        layouts.write(tmp_path / 'data', layout),
        tmp_path / 'out',
        PrepareOptions(for_segmentor=True),
    )
    assert data.classes == classes
    assert 0 < data.pixels[1] < data.pixels[0]
    assert 255 not in data.pixels


@pytest.mark.parametrize('channels', ['LA', 'RGBA'])
def test_an_alpha_channel_of_label_maps_is_not_read(channels, tmp_path):
    layouts.write(tmp_path, each('images/{}.jpg'))
    (tmp_path / 'masks').mkdir()
    for i in range(3):
        Image.fromarray(labels(i)).convert(channels).save(tmp_path / 'masks' / f'{i}.png')
    options = PrepareOptions(for_segmentor=True)
    data, _ = prepare(tmp_path, tmp_path / 'out', options)
    assert sorted(data.pixels) == [0, 1, 2]


@pytest.mark.parametrize('other', ['annotations/overlays', 'blend', 'depth'])
def test_pictures_of_annotations_are_no_images_to_train_on(other, tmp_path):
    layout = each('images/{}.jpg') | each('annotations/masks/{}.png', labels)
    data = detect(layouts.write(tmp_path, layout | each(f'{other}/{{}}.jpg'))).read()
    assert {p.path.parent.name for p in data.splits['train']} == {'images'}


def one_per_image(layout: str) -> dict:
    """A layout of one file whose images have a file each."""
    content, *_ = READ[layout]
    (path,) = (name for name, each in content.items() if each is not layouts.IMAGE)
    suffix, folder = Path(path).suffix, Path(path).parent.as_posix()
    images = {name: each for name, each in content.items() if each is layouts.IMAGE}
    if suffix == '.json':
        parts = [[entry] for entry in content[path]]
    elif suffix == '.xml':
        head, *bodies = content[path].replace('</annotations>', '').split('<image ')
        parts = [f'{head}<image {body}</annotations>' for body in bodies]
    else:
        head, *rows = content[path].splitlines()
        step = len(rows) // 3
        parts = ['\n'.join([head, *rows[i : i + step]]) for i in range(0, len(rows), step)]
    return images | {f'{folder}/{i}{suffix}': part for i, part in enumerate(parts)}


@pytest.mark.parametrize(
    'layout', ['CreateML', 'CVAT', 'Label Studio', 'Label Studio, CSV', 'CSV of TensorFlow']
)
def test_every_file_is_read_of_formats_with_one_per_image(layout, tmp_path, monkeypatch):
    monkeypatch.setattr('mmeffvit.data.tree.MANY', 2)
    monkeypatch.setattr('mmeffvit.data.tree.SAMPLED', 1)
    data = read(layouts.write(tmp_path, one_per_image(layout)), PrepareOptions())
    assert (len(data.splits['train']), data.count('train').total()) == (3, 6)


def test_tasks_without_an_annotation_are_no_background_and_sizes_are_compared(tmp_path):
    layout = layouts.label_studio()
    tasks = layout['project-1.json']
    tasks[1]['annotations'] = []
    tasks[2]['annotations'][0]['was_cancelled'] = True
    for result in tasks[0]['annotations'][0]['result']:
        result.update(original_width=960, original_height=640)
    data = read(layouts.write(tmp_path, layout), PrepareOptions())
    assert [picture.path.name for picture in data.splits['train']] == ['0.jpg']
    assert data.findings.counts[faults.IMAGE_UNLISTED] == 2
    check(data)
    assert data.findings.faults == [faults.SIZE_DIFFERS]


@pytest.mark.parametrize('declared', ['ISO-8859-1', 'gb2312', 'UTF-16', 'us-ascii'])
def test_the_split_of_an_image_is_the_one_of_its_folder_where_its_xml_has_none(declared, tmp_path):
    layout = {f'images/{split}/{i}.jpg': layouts.IMAGE for split, i in (('train', 0), ('val', 1))}
    layout |= each('xml/{}.xml', lambda i: voc(f'{i}.jpg', boxes(i)), (0, 1))
    layout['xml/1.xml'] = layout['xml/1.xml'].replace('bolt', 'Löwe')
    layout['xml/1.xml'] = f'<?xml version="1.0" encoding="{declared}"?>{layout["xml/1.xml"]}'
    data = read(layouts.write(tmp_path, layout), PrepareOptions())
    assert counts(data) == dict(train=1, val=1)
    assert data.classes == ['Löwe', 'bolt', 'nut']


def test_tasks_of_a_project_in_cvat_have_frames_of_their_own(tmp_path):
    tracks = ''.join(
        f'<track label="bolt" task_id="{i}" subset="{subset}"><box frame="0" outside="0" '
        f'xtl="{5 + i}" ytl="10" xbr="35" ybr="30"/></track>'
        for i, subset in enumerate(('site A', 'validation'))
    )
    layout = {f'images/{subset}/frame_000000.png': layouts.IMAGE
              for subset in ('site A', 'validation')}  # fmt: skip
    layout['annotations.xml'] = f'<annotations>{tracks}</annotations>'
    data = read(layouts.write(tmp_path, layout), PrepareOptions())
    found = {split: [p.objects[0].box[0] for p in part] for split, part in data.splits.items()}
    assert found == dict(train=[5], val=[6])


@pytest.mark.parametrize('label', ['class', 'split'])
def test_what_a_list_or_a_folder_leaves_out(label, tmp_path):
    if label == 'class':  # as Kaggle has them
        layout = {
            f'{name}/{kind}/{i}.jpg': layouts.IMAGE
            for name in ('TrainSet', 'dev')
            for kind in ('cat', 'dog')
            for i in range(2)
        }
        layout |= each('test/{}.jpg') | each('holdout/cat/{}.jpg')  # fmt: skip
        expected = dict(train=4, val=4)
    else:  # as fast.ai has CamVid
        layout = each('images/{}.jpg') | each('labels/{}_P.png', labels)
        layout |= {'codes.txt': 'a\nb\nc\n', 'valid.txt': '1.jpg\n'}
        expected = dict(train=2, val=1)
    data = read(layouts.write(tmp_path, layout), PrepareOptions())
    assert counts(data) == expected
    assert data.findings.counts[faults.IMAGE_UNLISTED] == (6 if label == 'class' else 0)


@pytest.mark.parametrize(
    ('name', 'split'),
    [
        ('TrainDataset/mask', 'train'), ('TestDataset/CVC-300', 'test'), ('valset', 'val'),
        ('images/dev', 'val'), ('VALIDATE', 'val'), ('Evaluation', 'val'), ('TrainVal', 'train'),
        ('VisDrone-DET-test-dev', 'test'), ('eval_board', None), ('val/labelTrainIds', 'val'),
        ('XTrain', 'train'), ('imagesTs', 'test'), ('JPEGImages', None), ('imagesTrue', None),
    ],
)  # fmt: skip
def test_words_of_a_name_tell_its_split(name, split):
    assert split_in(name) == split


def test_folders_of_classes_may_be_named_as_splits(tmp_path):
    layouts.write(tmp_path, each('dev/{}.jpg') | each('eval/{}.jpg') | each('prod/{}.jpg'))
    assert read(tmp_path, PrepareOptions()).classes == ['dev', 'eval', 'prod']


def test_masks_of_objects_may_be_called_as_other_images(tmp_path):
    layout = {f'masks/{i}/{k}.png': disks(i) for i in range(3) for k in range(i + 2)}
    layout |= {'masks/a/0.png': disks(0)}
    data = detect(layouts.write(tmp_path, each('images/{}.png') | layout)).read()
    assert [len(p.objects) for p in data.splits['train']] == [2, 3, 4]
    assert data.findings.counts == {faults.IMAGE_MISSING: 1}


@pytest.mark.parametrize('layout', ['labelme', 'VIA 2', 'CSV of TensorFlow'])
def test_images_that_no_annotation_names_are_noted(layout, tmp_path):
    content, *_ = READ[layout]
    folder = 'images/' if any(name.startswith('images/') for name in content) else ''
    data = detect(layouts.write(tmp_path, content | {f'{folder}other.jpg': IMAGE})).read()
    assert (counts(data), data.findings.counts) == (dict(train=3), {faults.IMAGE_UNLISTED: 1})


def test_labels_of_kitti_without_their_image_are_missing_images(tmp_path):
    layouts.write(tmp_path, layouts.kitti())
    (tmp_path / 'training/image_2/1.png').unlink()
    data = detect(tmp_path).read()
    assert (counts(data), data.findings.counts[faults.IMAGE_MISSING]) == (dict(train=2), 1)


def test_objects_that_coco_ignores_are_crowds_and_boxes_may_have_an_empty_polygon(tmp_path):
    content = layouts.coco(['0.jpg'])
    for row in content['annotations']:
        row['segmentation'] = [[]]
    content['annotations'][0]['ignore'] = 1
    layouts.write(tmp_path, {'train.json': content, '0.jpg': IMAGE})
    data = detect(tmp_path).read()
    assert [(item.is_crowd, item.mask) for item in data.objects()] == [(True, None), (False, None)]
    assert not data.findings.counts


def test_palettes_that_number_their_colors_differently_are_rejected(tmp_path):
    layouts.write(tmp_path, each('images/{}.jpg'))
    (tmp_path / 'masks').mkdir()
    colors = [(0, 0, 0), (128, 0, 0), (0, 128, 0)]
    for i, palette in enumerate((colors, [*colors, (9, 9, 9)], colors[::-1])):
        image = Image.fromarray(labels(i), 'P')
        image.putpalette(np.ravel(palette).tolist())
        image.save(tmp_path / f'masks/{i}.png')
    words = r'\(0, 128, 0\) is 2 in \S+/0\.png, and 0 in \S+/2\.png'
    with pytest.raises(UserError, match=words):
        detect(tmp_path).read()
    (tmp_path / 'images/2.jpg').unlink()
    (tmp_path / 'masks/2.png').unlink()
    assert len(detect(tmp_path).read().classes) == 3


def test_palettes_that_end_in_unused_colors_number_them_alike(tmp_path):
    layouts.write(tmp_path, each('images/{}.jpg'))
    (tmp_path / 'masks').mkdir()
    for i, rest in enumerate(([], [0] * 762, [1] * 762)):  # 255 is ignored, whatever its color
        image = Image.fromarray(labels(i, (0, 1, 255) if i else (0, 1)), 'P')
        image.putpalette([0, 0, 0, 128, 0, 0, *rest])
        image.save(tmp_path / f'masks/{i}.png')
    assert len(detect(tmp_path).read().classes) == 2


def test_images_in_other_formats_are_no_silent_loss_of_a_class(tmp_path):
    layouts.write(tmp_path, layouts.splits('flowers') | {'flowers/nut/4.HEIC': b'x'})
    data = detect(tmp_path).read()
    assert (counts(data), data.findings.counts) == (dict(train=6), {faults.IMAGE_BROKEN: 1})


@pytest.mark.parametrize('kind', ['yolo', 'classes'])
def test_runs_in_the_folder_of_a_dataset_are_no_part_of_it(kind, tmp_path):
    classes = each('cat/{}.jpg') | each('dog/{}.jpg')
    root = write_yolo(tmp_path) if kind == 'yolo' else layouts.write(tmp_path, classes)
    before = detect(root)
    with locked(root / 'work_dirs/first', 'a training run'):
        index = {'train.json': layouts.coco(['0.jpg']), '0.jpg': IMAGE}
        layouts.write(root / 'work_dirs/first/index', index)
    after = detect(root)
    assert (after.format, after.others) == (before.format, before.others)
    assert counts(after.read()) == counts(before.read())
    assert after.read().classes == before.read().classes
