"""Loading: JPEG images decoded at a fraction of their size, and labels drawn by their scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import mmcv
import numpy as np
from mmcv.transforms import LoadImageFromFile

from mmeffvit.registries import TRANSFORMS
from mmeffvit.utils.images import END, JPEG, JPEG_START, header_size

from .base import Transform

FLAGS = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}


@TRANSFORMS.register_module()
class LoadCutImage(LoadImageFromFile):
    """Load an image as mmcv does, also a JPEG whose last bytes are missing.

    In memory, OpenCV decodes these only with the mark of the end, which is appended.
    """

    def transform(self, results: dict) -> dict:
        content = Path(results['img_path']).read_bytes()
        if content.startswith(JPEG_START) and not content.endswith(END):
            content += END
        image = mmcv.imfrombytes(content, self.color_type, backend=self.imdecode_backend)
        if image is None:
            raise OSError(f'{results["img_path"]} cannot be decoded')
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results


@TRANSFORMS.register_module()
class LoadReduced(Transform):
    """Load an image with its annotations, a large JPEG at a half, a quarter or an eighth.

    The decoder averages pixels while it decodes, so the image is like one shrunk by areas. It does
    so only if a later transform would shrink the image as much or more, and if both sides are
    multiples. Boxes, polygons and label maps are in pixels of the decoded image, and later
    transforms set ``scale_factor`` relative to it; ``ori_shape`` is the file's. Other
    formats, and images with masks as run lengths or with keypoints, are decoded in full.

    Args:
        annotations: Settings of the transform that loads them.
        scale: Long and short side, in pixels, of the largest rectangle that later transforms fit
            images into: `scale` of ``Resize`` with `keep_ratio`.

    Raises:
        ValueError: If a side is not positive.
    """

    def __init__(self, *, annotations: Mapping[str, Any], scale: Sequence[int]) -> None:
        super().__init__()
        if len(scale) != 2 or min(scale) < 1:
            raise ValueError(f'scale is {tuple(scale)}; give two sides of at least one pixel')
        self.annotations = TRANSFORMS.build(dict(annotations))
        self.scale = (max(scale), min(scale))

    def transform(self, results: dict) -> dict:
        size = header_size(results['img_path'], JPEG) if can_shrink(results) else None
        reduction = 1 if size is None else self.reduction(size)
        results = LoadCutImage(color_type=FLAGS[reduction]).transform(results)
        if reduction == 1:
            return self.annotations.transform(results)
        if 'instances' in results:
            results['instances'] = [shrink(each, reduction) for each in results['instances']]
        results = self.annotations.transform(results)
        if results.get('gt_seg_map') is not None:
            middle = slice(reduction // 2, None, reduction)
            results['gt_seg_map'] = results['gt_seg_map'][middle, middle]
        results.update(ori_shape=size, scale_factor=(1 / reduction, 1 / reduction))
        return results

    def reduction(self, size: tuple[int, int]) -> int:
        """The largest of 1, 2, 4 and 8 by which an image of this size is shrunk later anyway.

        It divides both sides: otherwise the last pixels would average fewer pixels.
        """
        shrinks = max(max(size) / self.scale[0], min(size) / self.scale[1])
        fits = [by for by in FLAGS if by <= shrinks and not (size[0] % by or size[1] % by)]
        return max(fits, default=1)


def can_shrink(results: Mapping[str, Any]) -> bool:
    """Whether all annotations are boxes and polygons."""
    return all(
        isinstance(instance.get('mask', []), list) and 'keypoints' not in instance
        for instance in results.get('instances', ())
    )


def shrink(instance: Mapping[str, Any], reduction: int) -> dict[str, Any]:
    """An instance whose coordinates are divided."""
    found = dict(instance)
    if 'bbox' in found:
        found['bbox'] = [value / reduction for value in found['bbox']]
    if 'mask' in found:
        found['mask'] = [[value / reduction for value in polygon] for polygon in found['mask']]
    return found


@TRANSFORMS.register_module()
class SampleByScore(Transform):
    """Keep an instance with a probability equal to its score, drawn whenever it is loaded.

    Losses that are linear in their targets, such as cross-entropy, then equal in the mean the
    losses of soft labels: ``E[BCE(x, y)] = BCE(x, s)`` for y = 1 with probability s. Any head and
    loss can be trained so. It comes before annotations are loaded.

    Args:
        sure: Score from which an instance is always kept, in [0, 1].

    Raises:
        ValueError: If ``sure`` is out of range.
    """

    def __init__(self, *, sure: float = 0.7) -> None:
        super().__init__()
        if not 0 <= sure <= 1:
            raise ValueError(f'sure is {sure}; give a score from 0 to 1')
        self.sure = sure

    def transform(self, results: dict) -> dict:
        results['instances'] = [
            instance
            for instance in results['instances']
            if (score := instance.get('score', 1.0)) >= self.sure or np.random.rand() < score
        ]
        return results
