"""SSD's random crop: valid crops, their frequency, and cropped annotations."""

import random

import numpy as np
import pytest
from mmdet.structures.bbox import HorizontalBoxes
from mmdet.structures.mask import BitmapMasks, PolygonMasks

from mmeffvit.data.transforms import MaxIoURandomCrop

HEIGHT, WIDTH = 300, 400
NUM_DRAWS = 800


def random_boxes(rng: np.random.Generator, number: int) -> np.ndarray:
    corners = rng.uniform(0, 1, (number, 2, 2)) * (WIDTH, HEIGHT)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    boxes[:, 2:] = np.minimum(boxes[:, 2:] + 5, (WIDTH, HEIGHT))
    return boxes.astype(np.float32)


def overlap(a, b) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / (sum(areas) - shared)


def center_is_inside(part, box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return part[0] < x < part[2] and part[1] < y < part[3]


def naive_draw(boxes) -> tuple | None:
    """The rule, condition by condition."""
    while True:
        threshold = random.choice((0, 0.1, 0.3, 0.5, 0.7, 0.9, 1))
        if threshold == 0:
            return None
        for _ in range(40):
            width = int(random.uniform(0.3 * WIDTH, WIDTH))
            height = int(random.uniform(0.3 * HEIGHT, HEIGHT))
            if not 0.5 <= height / width <= 2 or min(width, height) < 100:
                continue
            left = int(random.uniform(0, WIDTH - width))
            top = int(random.uniform(0, HEIGHT - height))
            part = (left, top, left + width, top + height)
            if max(overlap(part, box) for box in boxes) < threshold:
                continue
            if any(center_is_inside(part, box) for box in boxes):
                return part


def annotated(boxes: np.ndarray, masks: type = BitmapMasks) -> dict:
    """An image with consecutive pixel values, boxes also as masks, and the loader's other keys."""
    if masks is BitmapMasks:
        pictures = np.zeros((len(boxes), HEIGHT, WIDTH), np.uint8)
        for picture, (x1, y1, x2, y2) in zip(pictures, boxes.round().astype(int), strict=True):
            picture[y1:y2, x1:x2] = 1
    else:
        pictures = [[np.array([x1, y1, x2, y1, x2, y2, x1, y2])] for x1, y1, x2, y2 in boxes]
    return dict(
        img=np.arange(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3),
        img_shape=(HEIGHT, WIDTH),
        gt_bboxes=HorizontalBoxes(boxes.copy()),
        gt_bboxes_labels=np.arange(len(boxes)),
        gt_ignore_flags=np.zeros(len(boxes), bool),
        gt_masks=masks(pictures, HEIGHT, WIDTH),
        gt_seg_map=np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH),
    )


@pytest.mark.parametrize('threshold', [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_crop_has_allowed_sides_and_overlaps_a_box_enough(threshold):
    rng = np.random.default_rng(0)
    transform = MaxIoURandomCrop(thresholds=(0, threshold))
    drawn = weaker = 0
    while drawn < 8:
        boxes = random_boxes(rng, number=3)
        part = transform.draw((HEIGHT, WIDTH), boxes)
        if part is None:
            continue
        drawn += 1
        overlaps = [overlap(part, box) for box in boxes]
        assert max(overlaps) >= threshold
        weaker += min(overlaps) < threshold
        assert any(center_is_inside(part, box) for box in boxes)
        width, height = part[2:] - part[:2]
        assert 0.5 <= height / width <= 2
        assert min(width, height) >= 100
        assert width >= int(0.3 * WIDTH)
        assert height >= int(0.3 * HEIGHT)
        assert (part >= 0).all()
        assert (part[2:] <= (WIDTH, HEIGHT)).all()
    assert weaker > 4  # the smallest overlap may be below the threshold


@pytest.mark.parametrize('number', [1, 4])
def test_crops_have_the_frequency_and_size_of_the_rule(number):
    boxes = random_boxes(np.random.default_rng(5), number)
    transform = MaxIoURandomCrop()
    ours = [transform.draw((HEIGHT, WIDTH), boxes) for _ in range(NUM_DRAWS)]
    naive = [naive_draw(boxes) for _ in range(NUM_DRAWS)]
    parts = [np.array([p for p in draws if p is not None], float) for draws in (ours, naive)]
    assert 50 < len(parts[1]) < NUM_DRAWS - 50
    # four standard errors of the difference of two means
    assert abs(len(parts[0]) - len(parts[1])) / NUM_DRAWS < 4 * (2 * 0.25 / NUM_DRAWS) ** 0.5
    error = (parts[0].var(axis=0) / len(parts[0]) + parts[1].var(axis=0) / len(parts[1])) ** 0.5
    assert (abs(parts[0].mean(axis=0) - parts[1].mean(axis=0)) < 4 * error).all()


@pytest.mark.parametrize('masks', [BitmapMasks, PolygonMasks])
def test_all_annotations_are_cropped_with_the_image(masks):
    rng = np.random.default_rng(1)
    transform = MaxIoURandomCrop(thresholds=(0, 0.1, 0.3))
    cropped = 0
    for _ in range(60):
        boxes = random_boxes(rng, number=4)
        results = transform(annotated(boxes, masks))
        if results['img_shape'] == (HEIGHT, WIDTH):
            continue
        cropped += 1
        first = results['gt_seg_map'][0, 0]
        left, top = first % WIDTH, first // WIDTH
        height, width = results['img_shape']
        whole = annotated(boxes, masks)
        window = (slice(top, top + height), slice(left, left + width))
        assert (results['img'] == whole['img'][window]).all()
        assert (results['gt_seg_map'] == whole['gt_seg_map'][window]).all()
        part = np.array([left, top, left + width, top + height])
        kept = [i for i, box in enumerate(boxes) if center_is_inside(part, box)]
        assert results['gt_bboxes_labels'].tolist() == kept
        assert len(results['gt_ignore_flags']) == len(results['gt_masks']) == len(kept)
        expected = (boxes[kept] - np.tile(part[:2], 2)).clip(0, np.tile((width, height), 2))
        assert np.allclose(results['gt_bboxes'].numpy(), expected, atol=1e-4)
        for i, mask in zip(kept, results['gt_masks'].to_ndarray(), strict=True):
            assert mask.shape == (height, width)
            if masks is BitmapMasks:
                assert (mask == whole['gt_masks'].masks[i][window]).all()
    assert cropped > 20


def test_crowds_are_ignored_by_the_rule_and_kept_by_their_center():
    boxes = np.array([[10, 10, 110, 110], [200, 100, 390, 290]], np.float32)
    seen = set()
    for _ in range(100):
        results = annotated(boxes)
        results['gt_ignore_flags'][:] = [True, False]
        results = MaxIoURandomCrop(thresholds=(0, 0.3))(results)
        if results['img_shape'] != (HEIGHT, WIDTH):
            seen.add(tuple(results['gt_bboxes_labels'].tolist()))
    assert seen == {(1,), (0, 1)}
    for _ in range(20):
        results = annotated(boxes)
        results['gt_ignore_flags'][:] = True
        assert MaxIoURandomCrop()(results)['img_shape'] == (HEIGHT, WIDTH)


def test_images_without_boxes_or_below_100_pixels_are_unchanged():
    transform = MaxIoURandomCrop()
    for _ in range(20):
        assert transform(annotated(np.zeros((0, 4), np.float32)))['img_shape'] == (HEIGHT, WIDTH)
        assert transform.draw((99, 400), np.array([[5, 5, 300, 90]], np.float32)) is None


@pytest.mark.parametrize('thresholds', [(0.1, 0.5), (0, 1.5), (-0.1, 0)])
def test_thresholds_without_zero_or_out_of_range_are_rejected(thresholds):
    with pytest.raises(ValueError, match='it must include 0'):
        MaxIoURandomCrop(thresholds=thresholds)
