"""Generated shapes: deterministic, readable by mmdet and mmseg, consistent with their masks."""

import json

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO

from mmeffvit.data.shapes import CLASSES, ShapesSpec, draw_image, generate, generate_ade20k
from mmeffvit.errors import UserError

SPEC = ShapesSpec(num_train=30, num_val=5, side=64)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('shapes') / 'set'
    generate(folder, SPEC)
    return folder


@pytest.fixture(scope='module')
def ade_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('shapes') / 'ade'
    generate_ade20k(folder, SPEC)
    return folder


def test_equal_specifications_give_equal_files(folder, tmp_path):
    generate(tmp_path / 'again', SPEC)
    files = [p.relative_to(folder) for p in folder.rglob('*') if p.is_file()]
    assert len(files) == 30 + 5 + 2 + 1
    for name in files:
        assert (folder / name).read_bytes() == (tmp_path / 'again' / name).read_bytes(), name


def test_coco_reads_it_and_boxes_enclose_their_masks(folder, capsys):
    coco = COCO(folder / 'annotations' / 'instances_train2017.json')
    assert [c['name'] for c in coco.loadCats(coco.getCatIds())] == list(CLASSES)
    for annotation in coco.loadAnns(coco.getAnnIds()):
        mask = coco.annToMask(annotation)
        rows, columns = mask.nonzero()
        x, y, width, height = annotation['bbox']
        assert (columns.min(), rows.min()) == (x, y)
        assert (np.ptp(columns) + 1, np.ptp(rows) + 1) == (width, height)
        assert mask.sum() == annotation['area'] > 0


def test_a_pixel_belongs_to_one_shape_and_every_class_occurs(folder):
    content = json.loads((folder / 'annotations' / 'instances_train2017.json').read_text())
    assert {a['category_id'] for a in content['annotations']} == {1, 2, 3, 4}
    for number in range(30):
        _, instances = draw_image(np.random.default_rng((0, 0, number)), SPEC)
        assert sum(mask.astype(int) for _, mask in instances).max() == 1  # a pixel has one shape


def test_a_finished_set_is_kept_and_other_files_are_not_overwritten(folder, ade_folder, tmp_path):
    before = (folder / 'spec.json').stat().st_mtime_ns
    generate(folder, SPEC)
    assert (folder / 'spec.json').stat().st_mtime_ns == before
    (tmp_path / 'photo.jpg').touch()
    with pytest.raises(UserError, match='contains other files'):
        generate(tmp_path, SPEC)
    for written, other in ((folder, generate_ade20k), (ade_folder, generate)):
        with pytest.raises(UserError, match='a set of another seed, size or layout'):
            other(written, SPEC)


def test_label_maps_are_those_of_the_instances_and_outlines_are_unlabeled(ade_folder):
    for number in range(SPEC.num_train):
        name = f'ADE_train_{number + 1:08d}'
        image, instances = draw_image(np.random.default_rng((0, 0, number)), SPEC)
        written = cv2.imread(str(ade_folder / 'images' / 'training' / f'{name}.jpg'))
        assert written.shape == (48, 64, 3)
        # JPEG removes noise and halves the color resolution; other images differ by 25 or more
        assert np.abs(written.astype(int) - image[:48]).mean() < 12
        labels = cv2.imread(
            str(ade_folder / 'annotations' / 'training' / f'{name}.png'), cv2.IMREAD_UNCHANGED
        )
        expected = np.ones((64, 64), np.uint8)
        for label, mask in instances:
            expected[mask] = label + 2
        assert labels.shape == (48, 64)
        assert np.isin(labels, (0, *range(1, 6))).all()
        labeled = labels > 0
        assert np.array_equal(labels[labeled], expected[:48][labeled])
        padded = np.pad(expected, 1, mode='edge')
        around = [padded[y : y + 64, x : x + 64] for y in range(3) for x in range(3)]
        assert np.array_equal(labeled, np.all([n == expected for n in around], axis=0)[:48])
