"""Gaussian blur of color images, as in the recipes of MobileViTv2."""

import numpy as np
from mmcv.transforms import BaseTransform
from PIL import Image, ImageFilter

from mmeffvit.registry import TRANSFORMS

from .photometric import check_color, check_probability


@TRANSFORMS.register_module()
class RandomGaussianBlur(BaseTransform):
    """Gaussian blur with random standard deviation, as in the code of arXiv:2206.02680.

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

    def __repr__(self) -> str:
        return f'{type(self).__name__}(radius={self.radius}, prob={self.prob})'
