"""Intact data pass, and every kind of damage is found, counted and reported."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from PIL import Image

from mmeffvit.config.load import load_config, require_scope
from mmeffvit.data import faults
from mmeffvit.data.faults import NOTE, Fault, Grade, Report
from mmeffvit.data.files import Sample
from mmeffvit.errors import UserError
from mmeffvit.train.checks.data import check_dataset
from mmeffvit.train.checks.run import check_data
from mmeffvit.train.checks.segmentation import label_of
from mmeffvit.utils.images import read_size
from tests.conftest import ROOT, run_command_here

CONFIGS = ROOT / 'configs'
SHAPES = CONFIGS / 'maskrcnn_swiftformer_xs_shapes.py'
ADE = CONFIGS / 'semfpn_shvit_s4_ade20k.py'
TRAIN = 'annotations/instances_train2017.json'
VAL = 'annotations/instances_val2017.json'
ALL = Sample(None)


def loaded(config: Path, data_root: Path, **options: object) -> Config:
    config = load_config(config, {'data_root': f'{data_root}/', **options})
    require_scope(config)
    return config


def faults_in(reports: list[Report]) -> set[Fault]:
    return {kind for report in reports for kind in report.faults}


@pytest.fixture
def copy(shapes, tmp_path) -> Path:
    """A copy of the generated shapes that a test may damage."""
    return Path(shutil.copytree(shapes, tmp_path / 'shapes'))


@pytest.fixture
def ade_copy(ade_shapes, tmp_path) -> Path:
    """The same with label maps."""
    return Path(shutil.copytree(ade_shapes, tmp_path / 'ade'))


def test_intact_data_have_no_faults(shapes, ade_shapes):
    for config, folder in ((SHAPES, shapes), (ADE, ade_shapes)):
        reports = check_dataset(loaded(config, folder), sample=ALL)
        assert not faults_in(reports), [str(report) for report in reports]
        assert [report.name for report in reports] == ['train', 'val, test']


def test_data_of_a_config_that_inherits_from_mmdet_are_checked(shapes, tmp_path):
    path = tmp_path / 'inherited.py'
    meta = "dict(classes=('circle', 'square', 'triangle', 'star'))"
    data = f'dict(dataset=dict(data_root={str(shapes)!r}, metainfo={meta}))'
    path.write_text(f"""
_base_ = 'mmdet::retinanet/retinanet_r50_fpn_1x_coco.py'
train_dataloader = val_dataloader = test_dataloader = {data}
val_evaluator = test_evaluator = dict(ann_file={str(shapes / VAL)!r})
""")
    config = load_config(path)
    require_scope(config)
    reports = check_dataset(config, sample=ALL)
    assert not faults_in(reports), [str(report) for report in reports]
    assert [row[0] for row in reports[0].table[1:]] == ['circle', 'square', 'triangle', 'star']
    config.train_dataloader.dataset.type = 'Nothing'
    with pytest.raises(UserError, match='Nothing is not in the mmdet::dataset registry'):
        check_dataset(config, sample=ALL)


def test_the_table_counts_images_and_annotations_of_every_class(shapes):
    content = json.loads((shapes / TRAIN).read_text())
    report, _ = check_dataset(loaded(SHAPES, shapes), sample=Sample(3))
    for number, row in enumerate(report.table[1:], start=1):
        own = [a for a in content['annotations'] if a['category_id'] == number]
        assert row[1:3] == (str(len({a['image_id'] for a in own})), str(len(own)))
    assert '3 images opened' in report.facts[0]


def edit(change: Callable[[dict], object]) -> Callable[[Path], object]:
    """Damage the annotation file of the training set."""

    def damage(folder: Path) -> None:
        content = json.loads((folder / TRAIN).read_text())
        change(content)
        (folder / TRAIN).write_text(json.dumps(content))

    return damage


def first(records: str, /, **values: object) -> Callable[[Path], object]:
    """Change values of the first record of a list."""
    return edit(lambda content: content[records][0].update(values))


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def repeat(name: str) -> Callable[[Path], object]:
    return edit(lambda content: content[name].append(dict(content[name][0])))


def swap_categories(content: dict) -> None:
    categories = content['categories']
    categories[0], categories[1] = categories[1], categories[0]


def name_again(content: dict) -> None:
    content['categories'].append(dict(id=9, name='circle'))


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


IMAGE = 'train2017/000000.png'
DAMAGE = {
    'image missing': (faults.IMAGE_MISSING, lambda folder: (folder / IMAGE).unlink()),
    'image truncated': (faults.IMAGE_BROKEN, lambda folder: truncate(folder / IMAGE)),
    'image empty': (faults.IMAGE_BROKEN, lambda folder: (folder / IMAGE).write_bytes(b'')),
    'image of another size': (
        faults.SIZE_DIFFERS,
        lambda folder: Image.new('RGB', (32, 64)).save(folder / IMAGE),
    ),
    'box outside': (faults.BOX_OUTSIDE, first('annotations', bbox=[50, 50, 30, 10])),
    'box left of it': (faults.BOX_OUTSIDE, first('annotations', bbox=[-9, 0, 5, 5])),
    'box without area': (faults.BOX_EMPTY, first('annotations', bbox=[5, 5, 0, 10])),
    'box with negative width': (faults.BOX_EMPTY, first('annotations', bbox=[9, 9, -4, 5])),
    'object without area': (faults.BOX_EMPTY, first('annotations', area=0)),
    'box not a number': (faults.RECORD_BROKEN, first('annotations', bbox=[1, 2, 3])),
    'category of no class': (faults.CATEGORY_UNKNOWN, first('annotations', category_id=99)),
    'image of no file': (faults.IMAGE_UNKNOWN, first('annotations', image_id=999)),
    'class missing': (faults.CLASS_MISSING, first('categories', name='heart')),
    'classes in another order': (faults.CLASS_ORDER, edit(swap_categories)),
    'class named twice': (faults.CATEGORY_DUPLICATE, edit(name_again)),
    'image id twice': (faults.IMAGE_DUPLICATE, repeat('images')),
    'annotation id twice': (faults.ANNOTATION_DUPLICATE, repeat('annotations')),
    'category id twice': (faults.CATEGORY_DUPLICATE, repeat('categories')),
    'no height': (faults.RECORD_BROKEN, first('images', height=None)),
    'polygon of two points': (
        faults.MASK_SHORT,
        first('annotations', segmentation=[[1, 1, 2, 2]]),
    ),
    'polygon far away': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=[[1, 1, 1e9, 1, 1e9, 1e9]]),
    ),
    'polygon with a NaN coordinate': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=[[1, 1, float('nan'), 1, 9, 9]]),
    ),
    'box far away': (faults.BOX_FAR, first('annotations', bbox=[0, 0, 1e9, 9])),
    'box of infinite width': (
        faults.RECORD_BROKEN,
        first('annotations', bbox=[0, 0, float('inf'), 9]),
    ),
    'box of strings': (faults.RECORD_BROKEN, first('annotations', bbox=['0', '0', '9', '9'])),
    'box beyond float': (faults.RECORD_BROKEN, first('annotations', bbox=[0, 0, 10**400, 9])),
    'id below zero': (faults.RECORD_BROKEN, first('annotations', id=-1)),
    'id beyond float': (faults.RECORD_BROKEN, first('annotations', id=2**60)),
    'id that is a fraction': (faults.RECORD_BROKEN, first('annotations', id=1.5)),
    'crowd of another type': (faults.RECORD_BROKEN, first('annotations', iscrowd='no')),
    'run lengths beyond the image': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=dict(size=[64, 64], counts=[0, 10**9])),
    ),
    'compressed run lengths beyond the image': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=dict(size=[64, 64], counts='0oooooo0')),
    ),
    'compressed run lengths truncated': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=dict(size=[64, 64], counts='0PP')),
    ),
    'image that is a pipe': (faults.IMAGE_IRREGULAR, lambda folder: make_pipe(folder / IMAGE)),
    'annotation file nested too deeply': (
        faults.FILE_BROKEN,
        lambda folder: (folder / TRAIN).write_text('[' * 100_000),
    ),
    'annotation file that is a pipe': (
        faults.FILE_BROKEN,
        lambda folder: make_pipe(folder / TRAIN),
    ),
    'no mask': (faults.MASK_BROKEN, first('annotations', segmentation=[])),
    'run lengths too short': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=dict(size=[64, 64], counts=[5, 6])),
    ),
    'run lengths missing': (
        faults.MASK_BROKEN,
        first('annotations', segmentation=dict(size=[64, 64])),
    ),
    'mask of another size': (
        faults.MASK_SIZE,
        first('annotations', segmentation=dict(size=[32, 64], counts=[32 * 64])),
    ),
    'no annotation file': (faults.PATH_MISSING, lambda folder: (folder / TRAIN).unlink()),
    'no image folder': (faults.PATH_MISSING, lambda folder: shutil.rmtree(folder / 'train2017')),
    'annotation file cut': (faults.FILE_BROKEN, lambda folder: truncate(folder / TRAIN)),
    'annotation file without lists': (
        faults.FILE_BROKEN,
        lambda folder: (folder / TRAIN).write_text('[]'),
    ),
}


GRADES = {  # of one in 22 objects; mmdet ignores these
    faults.BOX_EMPTY: Grade.NOTE,
    faults.BOX_OUTSIDE: Grade.WARNING,
    faults.MASK_SHORT: Grade.WARNING,
}


@pytest.mark.parametrize(('kind', 'damage'), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_counted_and_reported(kind, damage, copy):
    damage(copy)
    train, val = check_dataset(loaded(SHAPES, copy), sample=ALL)
    grade = GRADES.get(kind, Grade.ERROR)
    assert train.grade(kind) is grade, str(train)
    assert train.faults == ([kind] if grade is Grade.ERROR else [])
    assert train.counts[kind] == 1
    assert not val.faults
    text = str(train)
    place = train.places[kind][0]
    assert f'{grade.value}: {kind.what} (1)\n      {place}\n    fix: {kind.fix}' in text
    train.strict = True
    assert train.faults == ([] if grade is Grade.NOTE else [kind])


def test_what_may_be_intended_is_a_note(copy):
    def change(content: dict) -> None:
        content['images'].append(dict(id=99, file_name='000000.png', height=64, width=64))
        content['annotations'][0]['id'] = 0

    edit(change)(copy)
    config = loaded(SHAPES, copy)
    metainfo = dict(classes=('circle', 'square', 'triangle'))
    config.train_dataloader.dataset.metainfo = metainfo
    train, _ = check_dataset(config, sample=ALL)
    assert not train.faults
    found = set(train.counts)
    assert found == {faults.WITHOUT_OBJECTS, faults.ANNOTATION_ID_ZERO, faults.CLASS_IGNORED}
    assert all(kind.tolerated == NOTE for kind in found)


def test_few_empty_boxes_are_a_note_as_in_coco_itself():
    report = Report('train', 'CocoDataset', num_records=860001)
    for number in range(800):
        report.add(faults.BOX_EMPTY, number)
    assert not report.faults
    assert 'note: boxes' in str(report)
    assert '(800)' in str(report)


def test_masks_are_checked_only_if_the_config_reads_them(copy):
    first('annotations', segmentation=[[1, 1, 2, 2]])(copy)
    config = loaded(SHAPES, copy)
    for transform in config.train_dataloader.dataset.pipeline:
        transform.pop('with_mask', None)
    train, _ = check_dataset(config)
    assert not train.faults


def test_an_evaluator_with_another_file_is_a_fault(copy):
    config = loaded(SHAPES, copy)
    config.val_evaluator.ann_file = str(copy / TRAIN)
    config.test_evaluator.ann_file = 'gone.json'
    reports = {report.name: report for report in check_dataset(config, ('val', 'test'))}
    assert reports['val'].faults == [faults.OTHER_FILE]
    assert reports['test'].faults == [faults.PATH_MISSING]


def test_data_sets_inside_wrappers_are_checked(copy):
    (copy / IMAGE).unlink()
    config = loaded(SHAPES, copy)
    own = config.train_dataloader.dataset
    inner = dict(type='ConcatDataset', datasets=[own, dict(own)])
    config.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=inner)
    (report,) = check_dataset(config, ('train',))
    assert report.name == 'train 1 of 2, train 2 of 2'
    assert report.faults == [faults.IMAGE_MISSING]


def paint(value: int) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        labels = np.array(Image.open(path))
        labels[0, 0] = value
        Image.fromarray(labels).save(path)

    return damage


def turn(path: Path) -> None:
    Image.fromarray(np.array(Image.open(path)).T).save(path)


def color(path: Path) -> None:
    Image.open(path).convert('RGB').save(path)


LABELS = 'annotations/training/ADE_train_00000001.png'
PICTURE = 'images/training/ADE_train_00000001.jpg'
LABEL_DAMAGE = {
    'value': (faults.MAP_VALUE, LABELS, paint(151)),
    'size': (faults.MAP_SIZE, LABELS, turn),
    'color': (faults.MAP_COLOR, LABELS, color),
    'truncated': (faults.MAP_BROKEN, LABELS, truncate),
    'missing': (faults.MAP_MISSING, LABELS, Path.unlink),
    'image truncated': (faults.IMAGE_BROKEN, PICTURE, truncate),
    'image missing': (faults.MAP_UNUSED, PICTURE, Path.unlink),
}


@pytest.mark.parametrize(('kind', 'name', 'damage'), LABEL_DAMAGE.values(), ids=LABEL_DAMAGE)
def test_damage_of_label_maps_is_found(kind, name, damage, ade_copy):
    damage(ade_copy / name)
    train, val = check_dataset(loaded(ADE, ade_copy), sample=ALL)
    assert train.faults == [kind], str(train)
    assert train.counts[kind] == 1
    assert Path(name).stem in train.places[kind][0]
    assert not val.faults


def test_duplicate_and_missing_names_in_a_list_are_found(ade_copy):
    names = ['ADE_train_00000001', 'ADE_train_00000001', 'gone']
    (ade_copy / 'train.txt').write_text('\n'.join(names))
    config = loaded(ADE, ade_copy, **{'train_dataloader.dataset.ann_file': 'train.txt'})
    (train,) = check_dataset(config, ('train',))
    assert set(train.faults) == {
        faults.IMAGE_LISTED_TWICE,
        faults.IMAGE_MISSING,
        faults.MAP_MISSING,
    }


@pytest.mark.parametrize('reduce', [False, True])
@pytest.mark.parametrize('label_map', [None, {0: 1, 1: 255, 2: 0}])
def test_values_are_mapped_as_in_mmseg(reduce, label_map, tmp_path):
    from mmseg.datasets.transforms import LoadAnnotations

    path = tmp_path / 'labels.png'
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(path)
    expected_labels = LoadAnnotations()(
        dict(seg_map_path=str(path), reduce_zero_label=reduce, label_map=label_map, seg_fields=[])
    )['gt_seg_map']
    for value, label in enumerate(expected_labels.ravel().tolist()):
        expected = label if label in (0, 1, 2, 255) else None
        assert label_of(value, 3, 255, reduce, label_map) == expected, value


def test_the_size_of_a_rotated_image_is_that_of_mmcv(tmp_path):
    import mmcv

    path = tmp_path / 'rotated.jpg'
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new('RGB', (40, 30)).save(path, exif=exif)
    assert read_size(path) == mmcv.imread(str(path)).shape[:2] == (40, 30)


def test_the_sample_is_reproducible_and_an_unknown_data_set_is_a_user_error(shapes):
    assert Sample(4, 1).choose(range(99)) == Sample(4, 1).choose(range(99))
    assert Sample(4, 1).choose(range(99)) != Sample(4, 2).choose(range(99))
    config = loaded(SHAPES, shapes, **{'train_dataloader.dataset.type': 'NoSuchDataset'})
    with pytest.raises(UserError, match='NoSuchDataset'):
        check_dataset(config)


VOC = """<annotation><size><width>64</width><height>64</height></size>
<object><name>dog</name><bndbox><xmin>4</xmin><ymin>5</ymin><xmax>40</xmax><ymax>50</ymax></bndbox>
</object></annotation>"""
VOC_DAMAGE = {
    'cut': (faults.FILE_BROKEN, VOC[:-20], 'line 3'),
    'gone': (faults.FILE_BROKEN, None, 'does not exist'),
    'no corner': (faults.RECORD_BROKEN, VOC.replace('xmin', 'left'), 'xmin None'),
    'no box': (faults.RECORD_BROKEN, VOC.replace('bndbox', 'box'), 'bndbox'),
    'no number': (faults.RECORD_BROKEN, VOC.replace('40', 'x'), "xmax 'x'"),
    'far away': (faults.BOX_FAR, VOC.replace('50', '100000'), 'dog'),
    'outside': (faults.BOX_OUTSIDE, VOC.replace('50', '70'), 'dog'),
    'huge': (faults.RECORD_BROKEN, VOC.replace('64', '99999'), 'height 99999'),
}


def voc_config(folder: Path) -> Config:
    images = folder / 'JPEGImages'
    for path in (images, folder / 'Annotations'):
        path.mkdir(parents=True)
    for name in ('1', '2'):
        Image.new('RGB', (64, 64)).save(images / f'{name}.jpg')
        (folder / f'Annotations/{name}.xml').write_text(VOC)
    (folder / 'train.txt').write_text('1\n2\n')
    config = load_config(SHAPES)
    require_scope(config)
    dataset = dict(type='VOCDataset', data_root=str(folder), ann_file='train.txt')
    config.train_dataloader.dataset = dict(dataset, data_prefix=dict(sub_data_root=''))
    return config


@pytest.mark.parametrize(('kind', 'text', 'named'), VOC_DAMAGE.values(), ids=VOC_DAMAGE)
def test_annotations_of_pascal_voc_are_checked(kind, text, named, tmp_path):
    config = voc_config(tmp_path)
    (report,) = check_dataset(config, ('train',), sample=ALL)
    assert not report.faults, str(report)
    assert ('dog', '2', '2') in report.table
    check_data(config, ('train',))
    path = tmp_path / 'Annotations/1.xml'
    path.unlink() if text is None else path.write_text(text)
    (report,) = check_dataset(config, ('train',), sample=ALL)
    assert report.faults == [kind], str(report)
    assert named in report.places[kind][0]
    assert str(path) in report.places[kind][0]
    if kind.stops:
        with pytest.raises(UserError, match=r'1\.xml'):
            check_data(config, ('train',))


@pytest.mark.slow
def test_the_tool_prints_a_fix_and_exits_with_1(copy):
    (copy / IMAGE).unlink()
    run = run_command_here(
        'check', SHAPES, '--no-model', '--all', '--cfg-options', f'data_root={copy}/'
    )
    assert run.returncode == 1, run.stdout
    assert 'ERROR: missing images (1)' in run.stdout
    assert '000000.png' in run.stdout
    assert run.stdout.rstrip().endswith('maskrcnn_swiftformer_xs_shapes.py: 1 missing images')
    run = run_command_here('check', 'no.py')
    assert run.returncode == 2
    assert "error: config 'no.py' does not exist" in run.stdout
