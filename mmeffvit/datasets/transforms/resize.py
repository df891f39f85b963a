"""Resizing to multiples of a divisor."""

import mmcv
from mmcv.transforms import BaseTransform

from mmeffvit.registry import TRANSFORMS


@TRANSFORMS.register_module()
class FloorToMultiple(BaseTransform):
    """Floor the sides of an image to a multiple of ``divisor`` by resizing, for testing.

    As in the code of arXiv:2206.02680 before prediction; mmseg's ``ResizeToMultiple`` rounds up
    instead. Label maps are not resized: load them after this transform.

    Args:
        divisor: Height and width become multiples of it, in pixels.
        interpolation: Interpolation of mmcv's ``imresize``.

    Shape:
        ``img``, (H, W, C) -> (H // divisor * divisor, W // divisor * divisor, C).

    Raises:
        ValueError: If ``divisor`` is less than 1, or a side of the image is less than ``divisor``.
    """

    def __init__(self, divisor: int = 32, *, interpolation: str = 'bilinear') -> None:
        super().__init__()
        if divisor < 1:
            raise ValueError(f'divisor is {divisor}; it starts at 1')
        self.divisor = divisor
        self.interpolation = interpolation

    def transform(self, results: dict) -> dict:
        height, width = (side // self.divisor * self.divisor for side in results['img'].shape[:2])
        if not height or not width:
            raise ValueError(
                f'an image of {results["img"].shape[:2]} pixels is smaller than {self.divisor}'
            )
        image = mmcv.imresize(results['img'], (width, height), interpolation=self.interpolation)
        results['img'] = image
        results['img_shape'] = results['pad_shape'] = image.shape[:2]
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(divisor={self.divisor}, interpolation={self.interpolation!r})'
        )
