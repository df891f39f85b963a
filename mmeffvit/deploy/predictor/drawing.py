"""Draw predictions into an image, with OpenCV only."""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

OPACITY = 0.5  # of masks and label maps over the image


def draw_label_map(image: NDArray, label_map: NDArray, palette: NDArray) -> NDArray:
    """Blend every pixel with the color of its class: (H, W, 3) BGR -> (H, W, 3) BGR."""
    colors = palette[label_map % len(palette)][..., ::-1]
    return cv2.addWeighted(image, 1 - OPACITY, np.ascontiguousarray(colors), OPACITY, 0)


def draw_objects(
    image: NDArray,
    found: Mapping[str, NDArray],
    classes: Sequence[str],
    palette: NDArray,
    score_thr: float,
) -> NDArray:
    """Boxes, names, scores and masks, the best on top: (H, W, 3) BGR -> (H, W, 3) BGR.

    Args:
        image: The image, uint8.
        found: `bboxes`, `scores`, `labels` and optionally `masks`.
        classes: Class names by label.
        palette: Colors by label, RGB.
        score_thr: Score threshold.
    """
    picture = image.copy()
    line = max(round(max(image.shape[:2]) / 400), 1)
    for i in np.argsort(found['scores'], kind='stable'):
        score, label = float(found['scores'][i]), int(found['labels'][i])
        if score < score_thr:
            continue
        color = palette[label % len(palette)][::-1].tolist()
        if 'masks' in found:
            inside = found['masks'][i]
            mixed = picture[inside] * (1 - OPACITY) + np.array(color) * OPACITY
            picture[inside] = mixed.astype(np.uint8)
        left, top, right, bottom = (round(float(value)) for value in found['bboxes'][i])
        cv2.rectangle(picture, (left, top), (right, bottom), color, line)
        name = classes[label] if label < len(classes) else str(label)
        write(picture, f'{name} {score:.2f}', (left, top), color, line)
    return picture


def write(
    picture: NDArray, text: str, corner: tuple[int, int], color: list[int], line: int
) -> None:
    """Write text on a colored background, above the corner or below it if there is no space."""
    scale = 0.4 * max(line, 1)
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, line)
    left = min(max(corner[0], 0), max(picture.shape[1] - width, 0))
    top = corner[1] - height - below if corner[1] >= height + below else corner[1]
    cv2.rectangle(picture, (left, top), (left + width, top + height + below), color, -1)
    ink = (0, 0, 0) if sum(color) > 382 else (255, 255, 255)
    place = (left, top + height)
    cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, ink, line, cv2.LINE_AA)
