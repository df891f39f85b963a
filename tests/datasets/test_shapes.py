"""Generated shapes: deterministic, COCO-readable, true to their masks."""

import json

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO

from mmeffvit.datasets.shapes import CLASSES, ShapesSpec, draw_image, generate

SPEC = ShapesSpec(num_train=30, num_val=5, side=64)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('shapes') / 'set'
    generate(folder, SPEC)
    return folder


def test_equal_specifications_give_equal_files(folder, tmp_path):
    generate(tmp_path / 'again', SPEC)
    files = [p.relative_to(folder) for p in folder.rglob('*') if p.is_file()]
    assert len(files) == 30 + 5 + 2 + 1
    for name in files:
        assert (folder / name).read_bytes() == (tmp_path / 'again' / name).read_bytes(), name


def test_another_seed_gives_other_images_and_splits_differ(folder, tmp_path):
    generate(tmp_path / 'other', ShapesSpec(num_train=1, num_val=1, side=64, seed=1))
    first = cv2.imread(str(folder / 'train2017' / '000000.png'))
    assert not np.array_equal(first, cv2.imread(str(tmp_path / 'other/train2017/000000.png')))
    assert not np.array_equal(first, cv2.imread(str(folder / 'val2017' / '000000.png')))


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


def test_shapes_overlap_but_stay_visible_and_every_class_occurs(folder):
    content = json.loads((folder / 'annotations' / 'instances_train2017.json').read_text())
    assert {a['category_id'] for a in content['annotations']} == {1, 2, 3, 4}
    occluded = 0
    for number in range(30):
        _, instances = draw_image(np.random.default_rng((0, 0, number)), SPEC)
        union = np.zeros((64, 64), int)
        for _, mask in instances:
            union += mask
        assert union.max() <= 1  # a pixel shows one shape
        boxes = [cv2.boundingRect(m.astype(np.uint8)) for _, m in instances]
        occluded += any(
            a is not b
            and a[0] < b[0] + b[2]
            and b[0] < a[0] + a[2]
            and a[1] < b[1] + b[3]
            and b[1] < a[1] + a[3]
            for a in boxes
            for b in boxes
        )
    assert occluded >= 5


def test_a_finished_set_is_kept_and_foreign_files_are_not_overwritten(folder, tmp_path):
    before = (folder / 'spec.json').stat().st_mtime_ns
    generate(folder, SPEC)
    assert (folder / 'spec.json').stat().st_mtime_ns == before
    (tmp_path / 'photo.jpg').touch()
    with pytest.raises(FileExistsError, match='holds other files'):
        generate(tmp_path, SPEC)
