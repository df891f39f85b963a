"""COCO labelled with the classes of VOC: which pixels, which files, what stops a run."""

import json

import cv2
import numpy as np
import pytest

from mmeffvit.datasets import voc_coco
from mmeffvit.datasets.voc_coco import (
    COCO_IDS,
    VOC_PARTS,
    draw_labels,
    prepare_voc_coco,
    read_annotations,
)
from mmeffvit.errors import UserError
from tests.conftest import run_tool

# of mmseg's PascalVOCDataset, 1 to 20, as COCO spells them
COCO_NAMES = (
    'airplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair', 'cow',
    'dining table', 'dog', 'horse', 'motorcycle', 'person', 'potted plant', 'sheep', 'couch',
    'train', 'tv',
)  # fmt: skip


@pytest.fixture
def voc(tmp_path):
    """A folder like VOC's: two images, one of the usual set and one of the augmented."""
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


def test_the_categories_are_those_of_the_same_names(coco_mini):
    content = json.loads((coco_mini / voc_coco.ANNOTATIONS).read_text())
    names = {category['id']: category['name'] for category in content['categories']}
    assert tuple(names[i] for i in COCO_IDS) == COCO_NAMES


def test_the_first_instance_hides_later_ones_and_foreign_categories_are_background():
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


def test_every_image_of_coco_gets_the_map_of_its_instances(coco_mini, voc, tmp_path):
    out = tmp_path / 'out'
    content = json.loads((coco_mini / voc_coco.ANNOTATIONS).read_text())
    assert prepare_voc_coco(coco_mini, voc, out) == len(content['images']) > 0
    names = (out / 'coco' / 'train.txt').read_text().split()
    assert names == sorted(image['file_name'][:-4] for image in content['images'])
    coco = voc_coco.read_annotations(coco_mini / voc_coco.ANNOTATIONS)
    seen = set()
    for image in content['images']:
        labels = cv2.imread(
            str(out / 'coco' / 'labels' / f'{image["file_name"][:-4]}.png'), cv2.IMREAD_UNCHANGED
        )
        assert labels.shape == (image['height'], image['width'])
        expected = np.zeros_like(labels)
        for instance in reversed(coco.imgToAnns[image['id']]):  # the first is drawn last
            if instance['category_id'] in COCO_IDS:
                mask = coco.annToMask(instance).astype(bool)
                expected[mask] = COCO_IDS.index(instance['category_id']) + 1
        assert np.array_equal(labels, expected)
        seen |= set(np.unique(labels))
    assert len(seen) > 3
    assert (out / 'coco' / 'images' / f'{names[0]}.jpg').is_file()
    assert not list(out.rglob('*.partial'))


def test_the_base_reads_what_was_prepared(coco_mini, voc, tmp_path, monkeypatch):
    from mmengine.config import Config
    from mmengine.registry import init_default_scope
    from mmseg.registry import DATASETS

    from tests.conftest import ROOT

    prepare_voc_coco(coco_mini, voc, tmp_path / 'out')
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


def test_a_stopped_run_goes_on_and_keeps_what_is_done(coco_mini, voc, tmp_path):
    out = tmp_path / 'out'
    count = prepare_voc_coco(coco_mini, voc, out)
    labels = sorted((out / 'coco' / 'labels').iterdir())
    labels[0].unlink()
    labels[1].with_name(f'.{labels[1].name}.0.mmeffvit-partial').mkdir()  # of a killed run
    labels[1].unlink()
    before = labels[2].stat().st_mtime_ns
    assert prepare_voc_coco(coco_mini, voc, out) == 2
    assert sorted((out / 'coco' / 'labels').glob('[!.]*')) == labels
    assert len(labels) == count
    assert labels[2].stat().st_mtime_ns == before
    assert prepare_voc_coco(coco_mini, voc, out) == 0


def test_annotations_that_cannot_be_drawn_are_named(tmp_path):
    path = tmp_path / 'instances.json'
    box = dict(id=7, image_id=1, category_id=1, bbox=[0, 0, 9, 9], area=81)
    image = dict(id=1, file_name='1.jpg', height=32, width=32)
    content = dict(images=[image], categories=[dict(id=1, name='cat')])
    for mask in ([[0, 0, 1e9, 0, 9, 1e9]], dict(size=[32, 32], counts=[0, 10**9]), []):
        path.write_text(json.dumps(content | dict(annotations=[box | dict(segmentation=mask)])))
        with pytest.raises(UserError, match=r'instances\.json.*annotation 7'):
            read_annotations(path)


@pytest.mark.parametrize('part', VOC_PARTS)
def test_a_missing_part_of_voc_is_named_with_its_cure(coco_mini, voc, tmp_path, part):
    (voc / part).rename(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match=rf'{part}.* does not exist: .*(tar|voc_aug)'):
        prepare_voc_coco(coco_mini, voc, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_an_incomplete_coco_is_refused(coco_mini, voc, tmp_path):
    coco = tmp_path / 'coco'
    (coco / 'annotations').mkdir(parents=True)
    (coco / voc_coco.ANNOTATIONS).write_bytes((coco_mini / voc_coco.ANNOTATIONS).read_bytes())
    (coco / 'train2017').mkdir()
    with pytest.raises(UserError, match=r'images are not in .*train2017'):
        prepare_voc_coco(coco, voc, tmp_path / 'out')


def test_a_folder_in_the_way_is_left_alone(coco_mini, voc, tmp_path):
    (tmp_path / 'out' / 'voc').mkdir(parents=True)
    with pytest.raises(UserError, match='is there and is no link'):
        prepare_voc_coco(coco_mini, voc, tmp_path / 'out')


def test_the_tool_ends_in_one_line_for_a_missing_folder(tmp_path):
    done = run_tool('prepare_voc_coco', '--coco', tmp_path / 'nowhere', '--out', tmp_path / 'out')
    assert done.returncode == 2
    assert 'error: ' in done.stdout
    assert 'nowhere/train2017' in done.stdout
    assert 'Traceback' not in done.stdout
