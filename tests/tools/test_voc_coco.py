"""COCO labeled with the classes of VOC: labels, files and errors."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.errors import UserError
from mmeffvit.utils.files import PARTIAL
from tests.conftest import ROOT, message_of, run_here
from tools.dataset_converters import voc_coco
from tools.dataset_converters.voc_coco import COCO_IDS, VOC_PARTS, draw_labels, prepare_voc_coco

# classes 1 to 20 of mmseg's PascalVOCDataset, by their names in COCO
COCO_NAMES = (
    'airplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair', 'cow',
    'dining table', 'dog', 'horse', 'motorcycle', 'person', 'potted plant', 'sheep', 'couch',
    'train', 'tv',
)  # fmt: skip

UNUSED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}  # ids up to 90 that are not categories of COCO
CATEGORIES = {1: 17, 2: 1, 3: 25, 4: 6}  # circles are cats, then persons, giraffes and buses


@pytest.fixture(scope='module')
def coco(shapes, tmp_path_factory):
    """Generated shapes with categories of COCO, one of which is not in VOC, in COCO's format."""
    root = tmp_path_factory.mktemp('coco')
    content = json.loads((shapes / voc_coco.ANNOTATIONS).read_text())
    (root / voc_coco.IMAGES).mkdir()
    for image in content['images']:
        pixels = cv2.imread(str(shapes / voc_coco.IMAGES / image['file_name']))
        image['file_name'] = f'{image["id"]:012d}.jpg'
        cv2.imwrite(str(root / voc_coco.IMAGES / image['file_name']), pixels)
    for row in (*content['annotations'], *content['categories']):
        key = 'category_id' if 'category_id' in row else 'id'
        row[key] = CATEGORIES[row[key]]
    (root / 'annotations').mkdir()
    (root / voc_coco.ANNOTATIONS).write_text(json.dumps(content))
    return root


@pytest.fixture
def voc(tmp_path):
    """A folder like VOC's: two images, one of the standard set and one of the augmented set."""
    root = tmp_path / 'VOC2012'
    lists = dict(train=['2007_000001'], aug=['2008_000002'], val=['2007_000003'])
    for name in VOC_PARTS:
        path = root / name
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('\n'.join([*lists[path.stem], '']))
        else:
            path.mkdir(parents=True)
    for folder, names in (
        ('SegmentationClass', lists['train'] + lists['val']),
        ('SegmentationClassAug', lists['aug']),
    ):
        for name in names:
            cv2.imwrite(str(root / folder / f'{name}.png'), np.full((40, 60), 7, np.uint8))
            cv2.imwrite(str(root / 'JPEGImages' / f'{name}.jpg'), np.zeros((40, 60, 3), np.uint8))
    return root


def test_the_categories_are_those_of_the_same_names():
    from mmdet.datasets import CocoDataset

    ids = [number for number in range(1, 91) if number not in UNUSED]
    names = dict(zip(ids, CocoDataset.METAINFO['classes'], strict=True))
    assert tuple(names[i] for i in COCO_IDS) == COCO_NAMES


def test_earlier_instances_cover_later_ones_and_other_categories_are_background():
    masks = {
        'cat': np.array([[1, 1, 0, 0, 0]]),
        'giraffe': np.array([[0, 1, 1, 1, 0]]),
        'person': np.array([[0, 1, 1, 0, 0]]),
    }
    categories = dict(cat=17, giraffe=25, person=1)
    instances = [dict(category_id=categories[name], name=name) for name in masks]
    labels = draw_labels(instances, (1, 5), lambda instance: masks[instance['name']])
    assert labels.tolist() == [[8, 8, 15, 0, 0]]
    assert labels.dtype == np.uint8
    labels = draw_labels(instances[::-1], (1, 5), lambda instance: masks[instance['name']])
    assert labels.tolist() == [[8, 15, 15, 0, 0]]


def test_every_image_of_coco_gets_the_map_of_its_instances(coco, voc, tmp_path):
    out = tmp_path / 'out'
    content = json.loads((coco / voc_coco.ANNOTATIONS).read_text())
    assert prepare_voc_coco(coco, voc, out) == len(content['images']) > 0
    names = (out / 'coco' / 'train.txt').read_text().split()
    assert names == sorted(image['file_name'][:-4] for image in content['images'])
    annotations = voc_coco.read_annotations(coco / voc_coco.ANNOTATIONS)
    seen = set()
    for image in content['images']:
        labels = cv2.imread(
            str(out / 'coco' / 'labels' / f'{image["file_name"][:-4]}.png'), cv2.IMREAD_UNCHANGED
        )
        assert labels.shape == (image['height'], image['width'])
        expected = np.zeros_like(labels)
        for instance in reversed(annotations.imgToAnns[image['id']]):  # the first is drawn last
            if instance['category_id'] in COCO_IDS:
                mask = annotations.annToMask(instance).astype(bool)
                expected[mask] = COCO_IDS.index(instance['category_id']) + 1
        assert np.array_equal(labels, expected)
        seen |= set(np.unique(labels))
    assert seen == {0, 6, 8, 15}  # background, bus, cat, person
    assert (out / 'coco' / 'images' / f'{names[0]}.jpg').is_file()
    assert not list(out.rglob(f'*{PARTIAL}*'))


def test_the_base_config_reads_the_prepared_data(coco, voc, tmp_path, monkeypatch):
    from mmengine.config import Config
    from mmengine.registry import init_default_scope
    from mmseg.registry import DATASETS

    prepare_voc_coco(coco, voc, tmp_path / 'out')
    monkeypatch.setenv('DATA_ROOT', str(tmp_path / 'out'))
    config = Config.fromfile(ROOT / 'configs' / 'pspnet_mobilevitv2_050_voc12.py')
    init_default_scope('mmseg')
    train = DATASETS.build(config.train_dataloader.dataset)
    assert [len(part) for part in train.datasets] == [1, 1, len(train) - 2]
    for index, label in ((0, 7), (1, 7), (2, None)):
        sample = train[index]
        assert sample['inputs'].shape == (3, 512, 512)
        found = set(sample['data_samples'].gt_sem_seg.data.unique().tolist())
        assert found <= ({label, 255} if label else {*range(21), 255})
    val = DATASETS.build(config.val_dataloader.dataset)
    assert val[0]['inputs'].shape == (3, 512, 768)
    assert val[0]['data_samples'].gt_sem_seg.data.shape == (1, 40, 60)


def test_an_interrupted_run_continues_and_keeps_finished_files(coco, voc, tmp_path):
    out = tmp_path / 'out'
    count = prepare_voc_coco(coco, voc, out)
    labels = sorted((out / 'coco' / 'labels').iterdir())
    labels[0].unlink()
    labels[1].with_name(f'.{labels[1].name}.0.mmeffvit-partial').mkdir()  # of a killed run
    labels[1].unlink()
    before = labels[2].stat().st_mtime_ns
    assert prepare_voc_coco(coco, voc, out) == 2
    assert sorted((out / 'coco' / 'labels').glob('[!.]*')) == labels
    assert len(labels) == count
    assert labels[2].stat().st_mtime_ns == before
    assert prepare_voc_coco(coco, voc, out) == 0


@pytest.mark.parametrize('part', VOC_PARTS)
def test_a_missing_part_of_voc_is_reported_with_a_fix(coco, voc, tmp_path, part):
    (voc / part).rename(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match=rf'{part}.* does not exist: .*(tar|voc_aug)'):
        prepare_voc_coco(coco, voc, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_an_incomplete_coco_is_rejected(coco, voc, tmp_path):
    copy = Path(shutil.copytree(coco, tmp_path / 'coco'))
    next((copy / voc_coco.IMAGES).iterdir()).unlink()
    with pytest.raises(UserError, match=r'1 of 12 images are not in .*train2017'):
        prepare_voc_coco(copy, voc, tmp_path / 'out')


def test_an_existing_folder_is_not_overwritten(coco, voc, tmp_path):
    (tmp_path / 'out' / 'voc').mkdir(parents=True)
    with pytest.raises(UserError, match='exists and is not a link'):
        prepare_voc_coco(coco, voc, tmp_path / 'out')


def test_a_missing_folder_is_reported_in_one_line(tmp_path):
    tool = ROOT / 'tools' / 'dataset_converters' / 'voc_coco.py'
    done = run_here(tool, '--coco', tmp_path / 'nowhere', '--out-dir', tmp_path / 'out')
    assert 'nowhere/train2017' in message_of(done)
