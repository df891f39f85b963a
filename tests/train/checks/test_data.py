"""A config's data are judged as a folder's, and training goes on without what is broken."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import DATASETS
from PIL import Image

from mmeffvit.config.build import isolated
from mmeffvit.config.load import load_config, require_scope
from mmeffvit.data import faults
from mmeffvit.data.check import check
from mmeffvit.data.faults import Fault, Grade
from mmeffvit.data.files import Sample
from mmeffvit.data.prepare import PrepareOptions, read
from mmeffvit.data.records import DataSet
from mmeffvit.errors import UserError
from mmeffvit.train.checks.data import check_data, check_dataset, labels_of, reads_as, repair_data
from mmeffvit.utils.optional import require
from tests.conftest import ROOT, output_of, rejected
from tests.data.sets import write_maps, write_voc
from tests.hostile.cases_data import (
    BAD_COCO,
    NOT_REGULAR,
    PICTURE,
    annotated,
    changed,
    edit,
    mask_of,
    pictured,
    remove,
    replace,
)
from tests.hostile.commands import Job, put
from tests.hostile.world import TRAIN, VAL
from tests.utils.odd_images import EPS

CONFIGS = ROOT / 'configs'
SHAPES = CONFIGS / 'maskrcnn_swiftformer_xs_shapes.py'
ALL = Sample(None)
Damage = Callable[[Path], object]


def loaded(data_root: Path, **options: object) -> Config:
    config = load_config(SHAPES, {'data_root': f'{data_root}/', **options})
    require_scope(config)
    return config


@pytest.fixture
def copy(shapes, tmp_path) -> Path:
    """A copy of the generated shapes that a test may damage."""
    return Path(shutil.copytree(shapes, tmp_path / 'shapes'))


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
    sets = check_dataset(config, sample=ALL)
    assert [data.findings.name for data in sets] == ['train', 'val, test']
    assert not any(data.findings.faults for data in sets)
    content = json.loads((shapes / TRAIN).read_text())
    assert sets[0].count('train').total() == len(content['annotations'])
    config.train_dataloader.dataset.type = 'Nothing'
    with pytest.raises(UserError, match="mmdet has no dataset of type 'Nothing'"):
        check_dataset(config)


IMAGE = 'train2017/000000.png'
# beside what the judge gives to commands: what makes no run impossible
JUDGED: dict[str, tuple[Job, Fault]] = {
    'nothing': (lambda folder: None, faults.CLASS_FEW),
    'image renamed': (
        lambda folder: (folder / PICTURE).rename((folder / PICTURE).with_suffix('.PNG')),
        faults.NAME_SPELLED,
    ),
    'no height': (pictured(height=None), faults.FILLED),
    'object without area': (annotated(area=0), faults.FILLED),
    'box outside': (annotated(bbox=[50, 50, 30, 10]), faults.BOX_OUTSIDE),
    'box slightly outside': (annotated(bbox=[-1, -1, 50, 50]), faults.BOX_CLIPPED),
    'box without area': (annotated(bbox=[5, 5, 0, 10]), faults.BOX_EMPTY),
    'category of no class': (annotated(category_id=99), faults.CATEGORY_UNKNOWN),
    'image of no file': (annotated(image_id=999), faults.IMAGE_UNKNOWN),
}
DAMAGE = BAD_COCO | {name: (damage, fault.what) for name, (damage, fault) in JUDGED.items()}
# faults that a folder does not have, or calls otherwise
ONLY_CONFIGS = {faults.CLASS_MISSING, faults.IMAGE_IRREGULAR, faults.PATH_MISSING}
LOST = (Grade.WARNING, Grade.ERROR)
# what the first epoch meets, or can do without
LATER = {
    faults.IMAGE_MISSING, faults.IMAGE_BROKEN, faults.SIZE_DIFFERS, faults.CLASS_MISSING,
    faults.CATEGORY_UNKNOWN, faults.IMAGE_UNKNOWN, faults.BOX_OUTSIDE, faults.MASK_SHORT,
}  # fmt: skip


def judged(data: DataSet) -> dict[Fault, tuple[int, Grade]]:
    found = data.findings
    return {fault: (count, found.grade(fault)) for fault, count in found.counts.items()}


def in_folder(path: Path, **options: object) -> dict[Fault, tuple[int, Grade]] | None:
    """The findings of a folder; None if it cannot be read at all."""
    try:
        data = read(path, PrepareOptions(**options))
    except UserError:
        return None
    check(data, needs_masks=not data.has_label_maps and path.suffix == '.json')
    return judged(data)


@pytest.mark.parametrize('name', [name for name in DAMAGE if 'closed' not in name])
def test_coco_is_judged_as_in_a_folder_and_what_would_crash_a_run_stops_it(name, copy, monkeypatch):
    monkeypatch.chdir(copy.parent)
    damage, word = DAMAGE[name]
    damage(copy.parent)
    config = loaded(Path('shapes'))
    train, val = check_dataset(config, sample=ALL)
    assert word in train.findings.describe() + val.findings.describe()
    own, other = judged(train), in_folder(Path('shapes', TRAIN), format='coco')
    if other is None:
        assert train.findings.faults in ([faults.FILE_BROKEN], [faults.PATH_MISSING])
    elif not ONLY_CONFIGS & own.keys() and 'loop' not in name:
        assert own == other
    if said := refusal(config, 'train', 'val'):
        assert word in said
        assert '\n' not in said
    else:
        assert {*train.findings.of(*LOST), *val.findings.of(*LOST)} <= LATER


def refusal(config: Config, *splits: str) -> str:
    """What stops a run that is not checked otherwise; empty if nothing does."""
    try:
        check_data(config, splits)
    except UserError as error:
        return str(error)
    return ''


def truncate(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:100])


def xml(old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        text, count = re.subn(old, lambda _: new, (folder / XML).read_text(), count=1, flags=re.S)
        assert count
        (folder / XML).write_text(text)

    return damage


XML, LIST, JPG = 'Annotations/1.xml', 'ImageSets/Main/train.txt', 'JPEGImages/1.jpg'
ENTITIES = ''.join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
LAUGHS = f'<!DOCTYPE a [<!ENTITY a0 "ha">{ENTITIES}]><annotation><filename>&a12;'
VOC_DAMAGE: dict[str, tuple[Fault | str, Damage]] = {
    'cut': (faults.FILE_BROKEN, truncate(XML)),
    'no XML': ('syntax error', put(XML, b'no xml')),
    'empty': ('no element found', put(XML, b'')),
    'no text': (f'{XML}, line 1', put(XML, b'\xff\xfe\x00')),
    **{
        f'encoding {name}': (XML, put(XML, f'<?xml version="1.0" encoding="{name}"?><a/>'.encode()))
        for name in ('x', 'hex', 'rot13', 'zip', 'shift_jis')
    },
    'another root': ('an object without name', put(XML, b'<a><object/></a>')),
    'deep': (XML, put(XML, b'<a>' * 100_000)),
    'entities that grow': ('a document type is not read', xml('<annotation>\n<filename>', LAUGHS)),
    'entity of a file': ('a document type is not read', xml(
        '<annotation>\n<filename>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation><filename>&x;')),
    'no corner': (faults.RECORD_BROKEN, xml(r'<xmin>\d+</xmin>', '')),
    'no box': ('an object without bndbox', xml('<bndbox>.*?</bndbox>', '')),
    'no number': (faults.RECORD_BROKEN, xml('<xmin>', '<xmin>x')),
    'NaN': ("bndbox with xmin 'nan'", xml(r'<xmin>\d+', '<xmin>nan')),
    'beyond integers': ("bndbox with xmax '1e300'", xml(r'<xmax>\d+', '<xmax>1e300')),
    'far away': (faults.BOX_FAR, xml('<xmax>', '<xmax>9000')),
    'difficult': (faults.CROWD, xml('</name>', '</name><difficult>1</difficult>')),
    'empty difficult': (faults.FILLED, xml('</name>', '</name><difficult/>')),
    'no width': (faults.FILLED, xml('<width>64', '<width>')),
    'huge': (faults.FILE_BROKEN, xml('<width>64', '<width>99999999999')),
    'a pipe': (NOT_REGULAR, replace(XML, os.mkfifo)),
    'a device': (NOT_REGULAR, replace(XML, lambda path: path.symlink_to('/dev/zero'))),
    'list names none': ("nobody.xml' does not exist", put(LIST, b'nobody\n')),
    'list is no text': (LIST, put(LIST, b'\xff\xfe\n')),
    'list leads elsewhere': ("/etc/passwd.xml'", put(LIST, b'../../../../etc/passwd\n')),
    'list has a zero byte': ('embedded null byte', put(LIST, b'a\0b\n')),
    'list is a pipe': (LIST, replace(LIST, os.mkfifo)),
    'image cut': (faults.IMAGE_BROKEN, truncate(JPG)),
    'image is a pipe': (JPG, replace(JPG, os.mkfifo)),
    'image is PostScript': (JPG, put(JPG, EPS)),
}  # fmt: skip


def voc_config(root: Path) -> Config:
    require('mmdet')
    write_voc(root)
    (root / 'ImageSets/Main/val.txt').unlink()
    dataset = dict(
        type='VOCDataset',
        data_root=str(root),
        ann_file='ImageSets/Main/train.txt',
        data_prefix=dict(sub_data_root=''),
        metainfo=dict(classes=('circle', 'square', 'star', 'triangle')),
    )
    return Config(dict(default_scope='mmdet', train_dataloader=dict(dataset=dataset)))


def paint(path: Path) -> None:
    labels = np.array(Image.open(path))
    labels[0, 0] = 99
    Image.fromarray(labels).save(path)


def change_image(name: str, change: Callable[[Image.Image], Image.Image]) -> Damage:
    return lambda folder: change(Image.open(folder / name)).save(folder / name)


MAP, PHOTO = 'masks/1.png', 'images/1.jpg'
MAP_DAMAGE: dict[str, tuple[Fault | str, Damage]] = {
    'value': (faults.MAP_VALUE, lambda folder: paint(folder / MAP)),
    'size': (faults.MAP_SIZE, change_image(MAP, lambda image: image.resize((9, 9)))),
    'gray': (faults.MAP_GRAY, change_image(MAP, lambda image: image.convert('RGB'))),
    '16 bits': ('60000', lambda folder: Image.new('I;16', (64, 64), 60_000).save(folder / MAP)),
    'cut': (faults.MAP_BROKEN, truncate(MAP)),
    'empty': (faults.MAP_BROKEN, put(MAP, b'')),
    'PostScript': (faults.MAP_BROKEN, put(MAP, EPS)),
    'missing': (faults.MAP_MISSING, remove(MAP)),
    'a pipe': (MAP, replace(MAP, os.mkfifo)),
    'a folder': (MAP, replace(MAP, Path.mkdir)),
    'a loop': (MAP, replace(MAP, lambda path: path.symlink_to(path.name))),
    'image cut': (faults.IMAGE_BROKEN, truncate(PHOTO)),
    'image missing': (faults.IMAGE_MISSING, remove(PHOTO)),
    'image is a device': (
        'the image of',
        replace(PHOTO, lambda path: path.symlink_to('/dev/zero')),
    ),
}


def map_config(root: Path, count: int = 6) -> Config:
    require('mmseg')
    write_maps(root, count, table='classes.txt')
    dataset = dict(
        type='BaseSegDataset',
        data_root=str(root),
        data_prefix=dict(img_path='images', seg_map_path='masks'),
        metainfo=dict(classes=('ground', 'circle', 'square', 'triangle', 'star')),
        pipeline=[dict(type='LoadImageFromFile'), dict(type='LoadAnnotations')],
    )
    return Config(dict(default_scope='mmseg', train_dataloader=dict(dataset=dataset)))


CASES = {
    f'{layout}, {name}': (make, *case)
    for layout, make, damages in (('VOC', voc_config, VOC_DAMAGE), ('maps', map_config, MAP_DAMAGE))
    for name, case in damages.items()
}


@pytest.mark.parametrize(('make', 'kind', 'damage'), CASES.values(), ids=CASES)
def test_voc_and_label_maps_are_judged_as_in_a_folder(make, kind, damage, tmp_path):
    config = make(tmp_path)
    damage(tmp_path)
    (data,) = check_dataset(config, ('train',), ALL)
    own, other = judged(data), in_folder(tmp_path)
    if isinstance(kind, Fault):
        assert kind in own, data.findings.describe()
    word = kind if isinstance(kind, str) else kind.what
    assert word in data.findings.describe()
    if other is None:
        assert (1, Grade.ERROR) in own.values()
    elif isinstance(kind, Fault):
        other.pop(faults.IMAGE_UNLISTED, None)  # those of the validation list, which is removed
        assert own == other
    said = refusal(config, 'train')
    assert not said or (word in said and '\n' not in said)


def swap_categories(content: dict) -> None:
    categories = content['categories']
    categories[0], categories[1] = categories[1], categories[0]


OF_CONFIGS: dict[str, tuple[Fault, Job]] = {
    'class missing': (faults.CLASS_MISSING, changed('categories', name='heart')),
    'classes in another order': (faults.CLASS_ORDER, edit(TRAIN, swap_categories)),
    'class named twice': (
        faults.CATEGORY_DUPLICATE,
        edit(TRAIN, lambda content: content['categories'].append(dict(id=9, name='circle'))),
    ),
    'no image folder': (
        faults.PATH_MISSING, lambda folder: shutil.rmtree(folder / 'shapes/train2017'),
    ),
}  # fmt: skip


@pytest.mark.parametrize(('kind', 'damage'), OF_CONFIGS.values(), ids=OF_CONFIGS)
def test_what_only_a_config_can_have_wrong_is_an_error(kind, damage, copy):
    damage(copy.parent)
    train, val = check_dataset(loaded(copy), sample=ALL)
    assert train.findings.faults == [kind], train.findings.describe()
    assert not val.findings.faults


def test_what_may_be_intended_is_a_note(copy):
    record = dict(id=99, file_name='other.png', height=64, width=64)
    edit(TRAIN, lambda content: content['images'].append(record))(copy.parent)
    annotated(id=0)(copy.parent)
    (copy / 'train2017/other.png').write_bytes((copy / IMAGE).read_bytes())
    config = loaded(copy)
    config.train_dataloader.dataset.metainfo = dict(classes=('circle', 'square', 'triangle'))
    train, _ = check_dataset(config, sample=ALL)
    intended = {faults.WITHOUT_OBJECTS, faults.CLASS_IGNORED, faults.ANNOTATION_ID_ZERO}
    assert intended <= train.findings.counts.keys()
    assert {grade for _, grade in judged(train).values()} == {Grade.NOTE}
    assert train.classes == ['circle', 'square', 'triangle']


def test_masks_are_checked_only_if_the_config_reads_them(copy):
    mask_of([[1, 1, 2, 2]])(copy.parent)
    config = loaded(copy)
    for transform in config.train_dataloader.dataset.pipeline:
        transform.pop('with_mask', None)
    train, _ = check_dataset(config)
    assert faults.MASK_SHORT not in train.findings.counts


def test_an_evaluator_with_another_file_is_a_fault(copy):
    config = loaded(copy)
    config.val_evaluator.ann_file = str(copy / TRAIN)
    config.test_evaluator.ann_file = 'gone.json'
    val, test = (data.findings for data in check_dataset(config, ('val', 'test')))
    assert val.faults == [faults.OTHER_FILE]
    assert test.faults == [faults.PATH_MISSING]


def test_data_sets_inside_wrappers_are_checked(copy):
    (copy / IMAGE).unlink()
    config = loaded(copy)
    own = config.train_dataloader.dataset
    inner = dict(type='ConcatDataset', datasets=[own, dict(own)])
    config.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=inner)
    (data,) = check_dataset(config, ('train',))
    assert data.findings.name == 'train 1 of 2, train 2 of 2'
    assert data.findings.faults == [faults.IMAGE_MISSING]


def test_duplicate_and_missing_names_in_a_list_are_found(tmp_path):
    config = map_config(tmp_path)
    (tmp_path / 'train.txt').write_text('1\n1\ngone')
    config.train_dataloader.dataset.ann_file = 'train.txt'
    (data,) = check_dataset(config, ('train',))
    assert {faults.IMAGE_LISTED_TWICE, faults.IMAGE_MISSING} <= {*data.findings.faults}


@pytest.mark.parametrize('reduce', [False, True])
@pytest.mark.parametrize('label_map', [None, {0: 1, 1: 255, 2: 0}])
def test_values_are_mapped_as_in_mmseg(reduce, label_map, tmp_path):
    from mmseg.datasets import BaseSegDataset
    from mmseg.datasets.transforms import LoadAnnotations

    path = tmp_path / 'labels.png'
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(path)
    expected_labels = LoadAnnotations()(
        dict(seg_map_path=str(path), reduce_zero_label=reduce, label_map=label_map, seg_fields=[])
    )['gt_seg_map']
    dataset = BaseSegDataset(
        metainfo=dict(classes=tuple('abc')), reduce_zero_label=reduce, lazy_init=True
    )
    dataset.label_map = label_map
    found = labels_of(dataset)
    for value, label in enumerate(expected_labels.ravel().tolist()):
        assert found.get(value) == (label if label in (0, 1, 2, 255) else None), value


def test_panoptic_annotations_are_not_read_as_objects():
    from mmdet.datasets import CocoDataset, CocoPanopticDataset

    assert reads_as(CocoDataset, 'CocoDataset')
    assert not reads_as(CocoPanopticDataset, 'CocoDataset')


def test_the_sample_is_reproducible():
    assert Sample(4, 1).choose(range(99)) == Sample(4, 1).choose(range(99))
    assert Sample(4, 1).choose(range(99)) != Sample(4, 2).choose(range(99))


def loads(config: Config) -> int:
    """The number of training images that mmdet or mmseg reads, all of them."""
    with isolated(config.default_scope):
        dataset = DATASETS.build(config.train_dataloader.dataset)
    return sum(dataset[i] is not None for i in range(len(dataset)))


def spread(folder: Path) -> None:
    """So many images and objects that one is less than 5 %."""

    def change(content: dict) -> None:
        for number in range(12, 40):
            name = f'{number:06d}.png'
            (folder / 'train2017' / name).write_bytes(
                (folder / IMAGE).read_bytes() + b'%d' % number
            )
            content['images'].append(dict(id=number, file_name=name, height=64, width=64))
            new = dict(content['annotations'][0], id=100 + number, image_id=number)
            content['annotations'].append(new)

    edit(TRAIN, change)(folder.parent)


# and how many images are left
REPAIRED = {'no image': 39, 'image renamed': 40, 'no height': 40, 'box of three': 39,
            'runs are longer': 39, 'image of no file': 39}  # fmt: skip


@pytest.mark.parametrize('name', REPAIRED)
def test_mmdet_reads_what_is_left_of_coco(name, copy, tmp_path):
    spread(copy)
    damage, _ = DAMAGE[name]
    damage(tmp_path)
    config = loaded(copy)
    repair_data(config, tmp_path / 'data')
    assert loads(config) == REPAIRED[name]
    assert (tmp_path / 'data/train/faults.txt').read_text().strip()


def test_mmdet_and_mmseg_read_what_is_left_of_voc_and_of_label_maps(tmp_path):
    config = voc_config(tmp_path / 'voc')
    VOC_DAMAGE['empty difficult'][1](tmp_path / 'voc')
    VOC_DAMAGE['no width'][1](tmp_path / 'voc')
    repair_data(config, tmp_path / 'data')
    assert loads(config) == 6
    config = map_config(tmp_path / 'maps', 30)
    MAP_DAMAGE['gray'][1](tmp_path / 'maps')
    paint(tmp_path / 'maps/masks/2.png')
    repair_data(config, tmp_path / 'other')
    assert loads(config) == 29


def boxes_of(config: Config) -> list[list[list[float]]]:
    """The boxes of every training image, as mmdet reads them."""
    with isolated(config.default_scope):
        dataset = DATASETS.build(config.train_dataloader.dataset)
    rows = [dataset.get_data_info(i)['instances'] for i in range(len(dataset))]
    return [[each['bbox'] for each in row] for row in rows]


def test_all_that_is_written_was_opened_and_has_the_boxes_that_mmdet_reads(tmp_path, monkeypatch):
    monkeypatch.setattr('mmeffvit.train.checks.data.MANY', 0)
    config = voc_config(tmp_path / 'voc')
    for path in (tmp_path / 'voc/Annotations').iterdir():
        path.write_text(re.sub('<size>.*</size>', '', path.read_text()))
    expected = boxes_of(config)
    VOC_DAMAGE['empty difficult'][1](tmp_path / 'voc')
    repair_data(config, tmp_path / 'data')
    assert config.train_dataloader.dataset.type == 'mmdet.CocoDataset'
    assert boxes_of(config) == expected
    config = map_config(tmp_path / 'maps', 30)
    remove('maps/images/1.jpg')(tmp_path)
    truncate('maps/masks/2.png')(tmp_path)
    repair_data(config, tmp_path / 'other')
    assert loads(config) == 28


def test_a_warning_does_not_stop_the_training_of_a_config_but_an_error_does(copy, tmp_path):
    spread(copy)
    (copy / IMAGE).unlink()
    arguments = ['train', SHAPES, '--work-dir', tmp_path / 'run', '--cfg-options',
                 f'data_root={copy}/', 'train_cfg.max_epochs=1', 'train_cfg.val_interval=9',
                 'train_dataloader.dataset.indices=4']  # fmt: skip
    printed = output_of(*arguments)
    assert f'warning: {faults.IMAGE_MISSING.what} (1)' in printed
    assert 'left out: 1 image' in printed
    arguments[3] = tmp_path / 'strict'
    message = rejected(*arguments[:4], '--strict', *arguments[4:])
    assert f'errors, see above: {faults.IMAGE_MISSING.what} (1)' in message
    for number in range(1, 5):
        (copy / f'train2017/00000{number}.png').unlink()
    message = rejected(*arguments)
    assert f'{faults.IMAGE_MISSING.what} (5); --no-check trains anyway' in message
