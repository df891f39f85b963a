"""IoU-constrained random crop, for the recipe of MobileViTv2."""

from collections.abc import Sequence

import numpy as np
from mmcv.transforms.utils import cache_randomness

from mmeffvit.registries import TRANSFORMS
from mmeffvit.utils.boxes import pairwise_iou

from .base import Transform


@TRANSFORMS.register_module()
class MaxIoURandomCrop(Transform):
    """IoU-constrained random crop of SSD (arXiv:1512.02325), with the maximum IoU over the boxes.

    The *largest* IoU of the crop with a box must reach the threshold, whereas mmdet's
    ``MinIoURandomCrop`` requires it of every box. A threshold is drawn first; 0 keeps the image
    unchanged. If none of ``num_trials`` random crops is valid, another threshold is drawn. Boxes
    whose center is inside are kept and clipped to the crop; crowds, which mmdet flags as ignored,
    do not count for either rule. An image without boxes is unchanged.

    Args:
        thresholds: IoU thresholds to draw from, in [0, 1]; must include 0, so that drawing ends.
        num_trials: Random crops per threshold.
        min_scale: Smallest width and height of a crop, relative to the image.
        max_aspect: Largest ratio of the longer to the shorter side of a crop.
        min_side: Smallest width and height of a crop, in pixels.

    Raises:
        ValueError: If ``thresholds`` has no 0 or a number outside [0, 1].
    """

    def __init__(
        self,
        thresholds: Sequence[float] = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1),
        num_trials: int = 40,
        min_scale: float = 0.3,
        max_aspect: float = 2.0,
        min_side: int = 100,
    ) -> None:
        if 0 not in thresholds or not 0 <= min(thresholds) <= max(thresholds) <= 1:
            raise ValueError(f'thresholds is {thresholds}; it must include 0 and be in [0, 1]')
        self.thresholds = tuple(thresholds)
        self.num_trials = num_trials
        self.min_scale = min_scale
        self.max_aspect = max_aspect
        self.min_side = min_side

    def transform(self, results: dict) -> dict:
        boxes = results['gt_bboxes']
        ignored = results.get('gt_ignore_flags', np.zeros(len(boxes), bool))
        part = self.draw(results['img'].shape[:2], boxes.numpy()[~ignored])
        return results if part is None else crop(results, part)

    @cache_randomness
    def draw(self, size: tuple[int, int], boxes: np.ndarray) -> np.ndarray | None:
        """Draw a crop of an image of ``size`` pixels, or None for the unchanged image.

        Args:
            size: Height and width, in pixels.
            boxes: (N, 4): left, top, right and bottom, in pixels.

        Returns:
            Left, top, right and bottom, in integer pixels.
        """
        if len(boxes) == 0:
            return None
        while (threshold := np.random.choice(self.thresholds)) > 0:
            for _ in range(self.num_trials):
                part = self.draw_part(*size)
                if self.has_good_sides(part) and shows(part, boxes, threshold):
                    return part
        return None

    def draw_part(self, height: int, width: int) -> np.ndarray:
        """Draw a crop with uniformly distributed sides and position, regardless of the boxes."""
        part_width = int(np.random.uniform(self.min_scale * width, width))
        part_height = int(np.random.uniform(self.min_scale * height, height))
        left = int(np.random.uniform(0, width - part_width))
        top = int(np.random.uniform(0, height - part_height))
        return np.array([left, top, left + part_width, top + part_height])

    def has_good_sides(self, part: np.ndarray) -> bool:
        short, long = sorted(part[2:] - part[:2])
        return short >= max(self.min_side, 1) and long <= self.max_aspect * short


def center_inside(part: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Which boxes have their center strictly inside the crop."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    return ((centers > part[:2]) & (centers < part[2:])).all(axis=1)


def shows(part: np.ndarray, boxes: np.ndarray, threshold: float) -> bool:
    """Whether the largest IoU reaches the threshold, and some box has its center inside."""
    overlaps = pairwise_iou(boxes, part[None])
    return overlaps.max() >= threshold and center_inside(part, boxes).any()


def crop(results: dict, part: np.ndarray) -> dict:
    """Crop the image and its annotations; ``results`` is changed in place and returned."""
    left, top, right, bottom = part
    results['img'] = results['img'][top:bottom, left:right]
    results['img_shape'] = results['img'].shape[:2]
    kept = center_inside(part, results['gt_bboxes'].numpy())
    boxes = results['gt_bboxes'][kept]
    boxes.translate_((-left, -top))
    boxes.clip_(results['img_shape'])
    results['gt_bboxes'] = boxes
    for key in ('gt_bboxes_labels', 'gt_ignore_flags'):
        if results.get(key) is not None:
            results[key] = results[key][kept]
    if results.get('gt_masks') is not None:
        results['gt_masks'] = results['gt_masks'][np.flatnonzero(kept)].crop(part)
    if results.get('gt_seg_map') is not None:
        results['gt_seg_map'] = results['gt_seg_map'][top:bottom, left:right]
    return results
