"""Image sizes that a backbone divides without a rest."""

import mmcv
from mmcv.transforms import BaseTransform

from mmeffvit.registry import TRANSFORMS


@TRANSFORMS.register_module()
class FloorToMultiple(BaseTransform):
    """Resize an image to the next smaller multiple of ``divisor``, for testing.

    The code of arXiv:2206.02680 does so before prediction; mmseg's ``ResizeToMultiple`` takes the
    next larger one. A label map stays as it is: it is to be loaded after this.

    Args:
        divisor: What height and width are to be multiples of, in pixels.
        interpolation: Of mmcv's ``imresize``.

    Shape:
        ``img``, (H, W, C) -> (H // divisor * divisor, W // divisor * divisor, C).

    Raises:
        ValueError: If ``divisor`` is under 1, or a side of the image is under ``divisor``.
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
                f'an image of {results["img"].shape[:2]} pixels has no multiple of {self.divisor}'
            )
        image = mmcv.imresize(results['img'], (width, height), interpolation=self.interpolation)
        results['img'] = image
        results['img_shape'] = results['pad_shape'] = image.shape[:2]
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(divisor={self.divisor}, interpolation={self.interpolation!r})'
        )
