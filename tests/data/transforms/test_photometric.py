"""Photometric distortion, blur and the size of test images, against their definitions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter
from torchvision.transforms import v2

from mmeffvit.data.transforms import (
    FloorToMultiple,
    PhotometricDistortion,
    RandomGaussianBlur,
    Resize,
)
from mmeffvit.registry import TRANSFORMS


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ('ranges', 'prob'),
    [
        ({}, 0.5),
        (dict(brightness=(0.3, 0.4), contrast=(2, 3), saturation=(0, 0.1), hue=(0.3, 0.4)), 0.9),
    ],
)
def test_a_bgr_image_is_distorted_as_torchvision_distorts_rgb(image, ranges, prob):
    transform = PhotometricDistortion(**ranges, prob=prob)
    distort = v2.RandomPhotometricDistort(**ranges, p=prob)
    results = []
    for seed in range(20):
        torch.manual_seed(seed)
        results.append(transform.transform(dict(img=image))['img'])
        torch.manual_seed(seed)
        expected = np.asarray(distort(Image.fromarray(image[..., ::-1].copy())))
        assert np.array_equal(results[-1][..., ::-1], expected)
    assert len({result.tobytes() for result in results}) > 15


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
