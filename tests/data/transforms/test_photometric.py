"""Photometric distortion, blur and the size of test images, against their definitions."""

import colorsys
from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import ImageFilter
from torchvision.transforms import functional

from mmeffvit.data.transforms import (
    FloorToMultiple,
    PhotometricDistortion,
    RandomGaussianBlur,
    Resize,
)
from mmeffvit.data.transforms.photometric import permute_channels
from mmeffvit.registry import TRANSFORMS

GRAY = np.array([0.114, 0.587, 0.299])  # of blue, green and red


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def distort(image, step, amounts=None):
    """One distortion alone, always applied: shifting the hue rounds values even by 0."""
    transform = PhotometricDistortion(**(amounts or {}), prob=1.0)
    steps = [drawn for drawn in transform.draw() if drawn[0] is step]
    assert len(steps) == 1
    transform.draw = lambda: steps
    return transform.transform(dict(img=image))['img'].astype(float)


@pytest.mark.parametrize('factor', [0.5, 0.875, 1.125, 1.5])
@pytest.mark.parametrize(
    ('step', 'other'),
    [
        (functional.adjust_brightness, lambda image: 0),
        (functional.adjust_contrast, lambda image: (image @ GRAY).mean()),  # of the image
        (functional.adjust_saturation, lambda image: (image @ GRAY)[..., None]),  # of the pixel
    ],
)
def test_a_distance_is_multiplied_by_a_factor(image, step, other, factor):
    name = step.__name__.removeprefix('adjust_')
    changed = distort(image, step, {name: (factor, factor)})
    expected = np.clip(other(image) + factor * (image - other(image)), 0, 255)
    assert changed == pytest.approx(expected, abs=2)  # rounding


@pytest.mark.parametrize('turn', [-0.05, 0.05])
def test_hue_is_shifted_and_the_largest_channel_keeps_its_value(image, turn):
    changed = distort(image, functional.adjust_hue, dict(hue=(turn, turn)))
    assert changed.max(axis=2) == pytest.approx(image.max(axis=2), abs=1)
    for before, after in zip(image.reshape(-1, 3), changed.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before[::-1] / 255)
        expected = np.array(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)[::-1]) * 255
        # three steps of 1/256 of the circle, each at most six levels of a channel
        assert after == pytest.approx(expected, abs=18)


def test_all_six_channel_orders_occur(image):
    orders = set()
    for _ in range(60):
        changed = distort(image, permute_channels)
        orders |= {
            order for order in permutations(range(3)) if np.array_equal(changed, image[..., order])
        }
    assert len(orders) == 6


RANGES = {  # of the recipe
    'adjust_brightness': (0.875, 1.125),
    'adjust_contrast': (0.5, 1.5),
    'adjust_saturation': (0.5, 1.5),
    'adjust_hue': (-0.05, 0.05),
}


def test_each_change_happens_half_the_time_in_its_range_and_contrast_comes_first_or_last():
    transform = PhotometricDistortion()
    names: Counter = Counter()
    positions: Counter = Counter()
    amounts = defaultdict(list)
    for _ in range(4000):
        drawn = transform.draw()
        steps = [step.__name__ for step, _ in drawn]
        names.update(steps)
        for name, (_, amount) in zip(steps, drawn, strict=True):
            amounts[name].append(amount)
        if {'adjust_contrast', 'adjust_saturation'} <= set(steps):
            before = steps.index('adjust_contrast') < steps.index('adjust_saturation')
            positions[before] += 1
        fixed = [name for name in steps if name != 'adjust_contrast']
        order = ['adjust_brightness', 'adjust_saturation', 'adjust_hue', 'permute_channels']
        assert fixed == [name for name in order if name in fixed]
    assert len(names) == 5
    # five standard deviations of a fair coin
    assert all(abs(count - 2000) < 160 for count in names.values())
    assert abs(positions[True] - positions[False]) < 160
    for name, (low, high) in RANGES.items():
        margin = 0.02 * (high - low)
        assert low <= min(amounts[name]) < low + margin
        assert high - margin < max(amounts[name]) <= high


def test_probability_zero_changes_nothing_and_a_config_builds_both(image):
    for name in ('PhotometricDistortion', 'RandomGaussianBlur'):
        transform = TRANSFORMS.build(dict(type=f'mmeffvit.{name}', prob=0.0))
        assert np.array_equal(transform.transform(dict(img=image.copy()))['img'], image)


def test_blur_spreads_a_point_by_its_deviation():
    point = np.zeros((41, 41, 3), np.uint8)
    point[20, 20] = 255
    blurred = RandomGaussianBlur(radius=(3.0, 3.0), prob=1.0).transform(dict(img=point))['img']
    weights = blurred[..., 0].astype(float)
    rows = np.arange(41) - 20
    deviation = np.sqrt((weights.sum(axis=1) * rows**2).sum() / weights.sum())
    assert deviation == pytest.approx(3.0, rel=0.1)  # rounding to 1/255 truncates the tails
    assert np.array_equal(blurred[..., 0], blurred[..., 2])


def test_the_blur_of_the_recipe_happens_half_the_time_with_up_to_one_pixel(monkeypatch, image):
    radii = []
    original = ImageFilter.GaussianBlur
    monkeypatch.setattr(
        ImageFilter, 'GaussianBlur', lambda radius: radii.append(radius) or original(radius)
    )
    transform = RandomGaussianBlur()
    for _ in range(400):
        transform.transform(dict(img=image))
    assert 150 < len(radii) < 250
    assert 0 <= min(radii) < 0.05
    assert 0.95 < max(radii) <= 1


def test_an_image_for_testing_shrinks_to_a_multiple_and_never_grows():
    image = np.zeros((515, 689, 3), np.uint8)
    results = FloorToMultiple(8).transform(dict(img=image, img_shape=(515, 689)))
    assert results['img'].shape == (512, 688, 3)
    assert results['img_shape'] == (512, 688)
    assert FloorToMultiple(8).transform(dict(img=image[:512, :688]))['img'].dtype == np.uint8
    with pytest.raises(ValueError, match='smaller than 32'):
        FloorToMultiple(32).transform(dict(img=image[:31]))


def test_flooring_interpolates_as_torch_does_between_corners(image):
    resized = FloorToMultiple(16).transform(dict(img=image))['img']
    before = torch.tensor(image).permute(2, 0, 1)[None].float()
    expected = F.interpolate(before, resized.shape[:2], mode='bilinear', align_corners=True)
    assert resized.shape != image.shape
    assert resized.dtype == np.float32
    np.testing.assert_allclose(resized, expected[0].permute(1, 2, 0).numpy(), atol=1e-3)


@pytest.mark.parametrize(('size', 'expected'), [((333, 500), (512, 768)), ((500, 333), (768, 512))])
def test_a_truncated_long_side_is_one_pixel_shorter_than_a_rounded_one(size, expected):
    image = np.zeros((*size, 3), np.uint8)
    options = dict(scale=(8192, 512), keep_ratio=True)
    results = Resize(truncated=True, **options).transform(dict(img=image))
    assert results['img'].shape[:2] == results['img_shape'] == expected
    assert results['scale_factor'] == (expected[1] / size[1], expected[0] / size[0])
    assert max(Resize(**options).transform(dict(img=image))['img'].shape) == max(expected) + 1


def test_a_long_side_is_limited_too():
    image = np.zeros((512, 9, 3), np.uint8)
    resize = Resize(truncated=True, scale=(1000, 512), keep_ratio=True)
    assert resize.transform(dict(img=image))['img'].shape[:2] == (1000, 17)


@pytest.mark.parametrize(
    'arguments',
    [dict(brightness=(1.2, 0.8)), dict(contrast=(-0.1, 1.0)), dict(hue=(-0.6, 0.0)), dict(prob=2)],
)
def test_impossible_ranges_are_named(arguments):
    with pytest.raises(ValueError, match=f'{next(iter(arguments))} is '):
        PhotometricDistortion(**arguments)


def test_normalized_images_are_rejected(image):
    for transform in (PhotometricDistortion(), RandomGaussianBlur()):
        with pytest.raises(ValueError, match='float32'):
            transform.transform(dict(img=image.astype(np.float32)))
