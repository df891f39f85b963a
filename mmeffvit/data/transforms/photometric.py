"""Photometric distortion and blur of color images, for the recipes of MobileViTv2."""

import numpy as np
from PIL import Image, ImageFilter

from mmeffvit.registries import TRANSFORMS

from .base import Transform


@TRANSFORMS.register_module()
class PhotometricDistortion(Transform):
    """Jitter brightness, contrast, saturation and hue, and permute the channels.

    The distortion of arXiv:2206.02680's code, computed by torchvision. Each of the five
    steps has probability ``prob``: brightness, saturation, hue and permutation in this order,
    contrast before or after saturation and hue with equal probability. Brightness blends the image
    with black, contrast with its mean gray value, saturation with its grayscale version; hue is the
    angle of HSV. ``PhotoMetricDistortion`` of mmdet and mmseg differs: it adds to the brightness,
    changes the hue more and, in mmseg, does not permute.

    Args:
        brightness: Smallest and largest factor.
        contrast: Smallest and largest factor.
        saturation: Smallest and largest factor.
        hue: Smallest and largest hue shift, as a fraction of the hue circle, in [-0.5, 0.5].
        prob: Probability of each step, in [0, 1].

    Shape:
        ``img``, (H, W, 3) uint8 BGR -> the same.

    Raises:
        ValueError: If a range or ``prob`` is out of bounds, or the image is not uint8 with three
            channels.
    """

    def __init__(
        self,
        *,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        prob: float = 0.5,
    ) -> None:
        super().__init__()
        factors = dict(brightness=brightness, contrast=contrast, saturation=saturation)
        for name, (low, high) in factors.items():
            if not 0 <= low <= high:
                raise ValueError(
                    f'{name} is {(low, high)}; give two factors of at least 0 in ascending order'
                )
        if not -0.5 <= hue[0] <= hue[1] <= 0.5:
            raise ValueError(f'hue is {hue}; give two numbers from -0.5 to 0.5 in ascending order')
        check_probability(prob)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue
        self.prob = prob

    def transform(self, results: dict) -> dict:
        from torchvision.transforms import v2  # all else works where it does not load

        image = results['img']
        check_color(image)
        distort = v2.RandomPhotometricDistort(
            self.brightness, self.contrast, self.saturation, self.hue, self.prob
        )
        changed = distort(Image.fromarray(np.ascontiguousarray(image[..., ::-1])))  # RGB
        results['img'] = np.ascontiguousarray(np.asarray(changed)[..., ::-1])
        return results


@TRANSFORMS.register_module()
class RandomGaussianBlur(Transform):
    """Gaussian blur with random standard deviation, following the code of arXiv:2206.02680.

    The radius of that code and of Pillow is the standard deviation of the Gaussian, in pixels;
    Pillow approximates it by three box blurs per direction. mmseg's ``BioMedicalGaussianBlur`` is
    for volumes.

    Args:
        radius: Smallest and largest standard deviation, in pixels, drawn uniformly.
        prob: Probability of blurring an image, in [0, 1].

    Shape:
        ``img``, (H, W, 3) uint8 -> the same.

    Raises:
        ValueError: If ``radius`` or ``prob`` is out of bounds, or the image is not uint8 with three
            channels.
    """

    def __init__(self, *, radius: tuple[float, float] = (0.0, 1.0), prob: float = 0.5) -> None:
        super().__init__()
        if not 0 <= radius[0] <= radius[1]:
            raise ValueError(
                f'radius is {radius}; give two numbers of at least 0 in ascending order'
            )
        check_probability(prob)
        self.radius = radius
        self.prob = prob

    def transform(self, results: dict) -> dict:
        image = results['img']
        check_color(image)
        if np.random.rand() < self.prob:
            blur = ImageFilter.GaussianBlur(np.random.uniform(*self.radius))
            # the order of the channels does not matter
            results['img'] = np.array(Image.fromarray(np.ascontiguousarray(image)).filter(blur))
        return results


def check_probability(prob: float) -> None:
    if not 0 <= prob <= 1:
        raise ValueError(f'prob is {prob}; give a probability from 0 to 1')


def check_color(image: np.ndarray) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(
            f'the image is {image.dtype} of shape {image.shape}; give uint8 (height, width, 3), '
            'before normalization'
        )
