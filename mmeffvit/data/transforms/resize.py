"""Sizes of test images, following the code of arXiv:2206.02680."""

from typing import Any

import mmcv
from mmcv.transforms import Resize as PlainResize

from mmeffvit.registries import TRANSFORMS
from mmeffvit.utils.images import resize_corners, truncated_size

from .base import Transform


@TRANSFORMS.register_module()
class Resize(PlainResize):
    """mmcv's ``Resize``, also with the long side truncated to whole pixels, not rounded.

    Args:
        truncated: With `keep_ratio`, truncate the side that does not become one of `scale`.
        options: Options of mmcv's ``Resize``: `scale`, `keep_ratio`, `interpolation`, `backend`...
    """

    def __init__(self, *, truncated: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.truncated = truncated

    def _resize_img(self, results: dict) -> None:
        if not (self.truncated and self.keep_ratio):
            super()._resize_img(results)
            return
        height, width = results['img'].shape[:2]
        size = truncated_size((height, width), results['scale'])
        image = mmcv.imresize(
            results['img'], size[::-1], interpolation=self.interpolation, backend=self.backend
        )
        results['img'] = image
        results['img_shape'] = image.shape[:2]
        results['scale_factor'] = (size[1] / width, size[0] / height)
        results['keep_ratio'] = True


@TRANSFORMS.register_module()
class FloorToMultiple(Transform):
    """Floor the sides of an image to a multiple of ``divisor`` by resizing, for testing.

    The code of arXiv:2206.02680 does so before prediction; mmseg's ``ResizeToMultiple`` rounds up
    instead. Interpolation is bilinear with aligned corners, and its values are not rounded. Label
    maps are not resized: load them after this transform.

    Args:
        divisor: Height and width become multiples of it, in pixels.

    Shape:
        ``img``, (H, W, C) -> float32 of (H // divisor * divisor, W // divisor * divisor, C);
        images whose sides are multiples already are unchanged.

    Raises:
        ValueError: If ``divisor`` is less than 1, or a side of the image is less than ``divisor``.
    """

    def __init__(self, divisor: int = 32) -> None:
        super().__init__()
        if divisor < 1:
            raise ValueError(f'divisor is {divisor}; it must be at least 1')
        self.divisor = divisor

    def transform(self, results: dict) -> dict:
        height, width = (side // self.divisor * self.divisor for side in results['img'].shape[:2])
        if not height or not width:
            raise ValueError(
                f'an image of {results["img"].shape[:2]} pixels is smaller than {self.divisor}'
            )
        image = resize_corners(results['img'], (height, width))
        results['img'] = image
        results['img_shape'] = results['pad_shape'] = image.shape[:2]
        return results
