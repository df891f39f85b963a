"""NMS and argmax, which files for LiteRT and ncnn leave to the application."""

from collections.abc import Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS
from mmeffvit.utils.boxes import post_process
from mmeffvit.utils.images import resize_corners

from .metadata import Metadata


def last_steps(
    outputs: Mapping[str, NDArray], metadata: Metadata, size: tuple[int, int]
) -> Mapping[str, NDArray]:
    """The objects or label map of a file that returns all boxes or logits; others are unchanged.

    The outputs are those for one image, with its height and width as ``size``.
    """
    if set(outputs) == set(OBJECTS[:2]):
        found = post_process(
            outputs['boxes'][0],
            outputs['scores'][0],
            metadata.score_threshold,
            metadata.iou_threshold,
            limit=metadata.max_per_img,
            by_class=not metadata.class_agnostic,
        )
        return {name: value[None] for name, value in zip(OBJECTS, found, strict=True)}
    if set(outputs) == {'logits'}:
        return {'label_map': label_map(outputs['logits'][0], metadata, size)[None]}
    return outputs


def label_map(logits: NDArray, metadata: Metadata, size: tuple[int, int]) -> NDArray:
    """Labels of the pixels of an image: (classes, h, w) -> (H, W), int64."""
    divisor = metadata.size_divisor
    padded = tuple(-(-side // divisor) * divisor for side in size)
    # a single channel is 1 above the logit of its threshold
    threshold = np.log(metadata.label_threshold / (1 - metadata.label_threshold))
    highest = np.full(padded, threshold if len(logits) == 1 else -np.inf, np.float32)
    labels = np.zeros(padded, np.int64)
    for label, part in enumerate(np.ascontiguousarray(logits), start=len(logits) == 1):
        if metadata.align_corners:  # one class at a time: there may be many
            resized = resize_corners(part[..., None], padded)[..., 0]
        else:
            resized = cv2.resize(part, padded[::-1], interpolation=cv2.INTER_LINEAR)
        labels[resized > highest] = label
        np.maximum(resized, highest, out=highest)
    return labels[: size[0], : size[1]]
