"""Contact sheets with predictions next to the ground truth."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement, InstanceData, PixelData
from torch import Tensor

from mmeffvit.utils.images import read_image, write_image
from mmeffvit.utils.text import without_formulas

TITLE_HEIGHT = 28  # pixels
GAP = 6  # pixels


def draw_contact_sheet(
    runner: Runner,
    path: Path,
    *,
    num_images: int = 12,
    columns: int = 3,
    enlarge: float = 3.0,
    score_thr: float = 0.5,
) -> None:
    """Draw the first test images with ground truth and predictions side by side.

    Args:
        runner: A runner with a trained model.
        path: The PNG to write.
        num_images: Number of images on the sheet.
        columns: Images per row.
        enlarge: Scale factor of the images.
        score_thr: Score threshold of drawn predictions, in [0, 1].
    """
    pairs = islice(_draw_pairs(runner, enlarge, score_thr), num_images)
    sheet = montage(list(pairs), columns, title='left: ground truth, right: prediction')
    write_image(path, cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))


def _draw_pairs(runner: Runner, enlarge: float, score_thr: float) -> Iterator[np.ndarray]:
    loader = runner.test_loop.dataloader
    visualizer = runner.visualizer
    visualizer.dataset_meta = loader.dataset.metainfo
    runner.model.eval()
    for batch in loader:
        with torch.no_grad():
            samples = runner.model.test_step(batch)
        for sample in samples:
            image = cv2.cvtColor(read_image(sample.img_path), cv2.COLOR_BGR2RGB)
            large = cv2.resize(image, None, fx=enlarge, fy=enlarge)
            # both are in pixels of the original image
            scale_sample(sample, enlarge, large.shape[:2])
            options = dict(pred_score_thr=score_thr) if 'pred_instances' in sample else {}
            halves = []  # drawn one by one: mmseg's visualizer keeps the last of two only
            for drawn in (dict(draw_pred=False), dict(draw_gt=False)):
                with without_formulas():
                    visualizer.add_datasample(
                        'sheet', large, data_sample=sample, **drawn, **options
                    )
                halves.append(visualizer.get_image())
            yield np.concatenate(halves, axis=1)


def scale_sample(sample: BaseDataElement, factor: float, size: tuple[int, int]) -> None:
    """Scale the annotations of a sample with its image, in place.

    Args:
        sample: A sample of mmdet or mmseg, in pixels before scaling.
        factor: Scale factor of the image.
        size: Height and width after scaling, in pixels.
    """
    for name in ('gt_instances', 'pred_instances'):
        if name in sample:
            scale_instances(sample.get(name), factor, size)
    for name in ('gt_sem_seg', 'pred_sem_seg'):
        if name in sample and hasattr(sample.get(name), 'data'):  # of mmseg, (1, H, W)
            labels = sample.get(name).data[0].cpu().numpy().astype(np.int32)
            scaled = cv2.resize(labels, size[::-1], interpolation=cv2.INTER_NEAREST)
            setattr(sample, name, PixelData(data=torch.from_numpy(scaled)[None]))


def scale_instances(instances: InstanceData, factor: float, size: tuple[int, int]) -> None:
    """Scale boxes and masks, see :func:`scale_sample`."""
    boxes = instances.bboxes
    instances.bboxes = getattr(boxes, 'tensor', boxes) * factor
    masks = instances.get('masks')
    if isinstance(masks, Tensor):  # a prediction
        scaled = [cv2.resize(m.astype(np.uint8), size[::-1]) for m in masks.cpu().numpy()]
        instances.masks = np.stack(scaled).astype(bool) if scaled else np.zeros((0, *size), bool)
    elif masks is not None:  # ground truth, in a mask class of mmdet
        instances.masks = masks.resize(size)


def montage(pictures: Sequence[np.ndarray], columns: int, title: str) -> np.ndarray:
    """Arrange pictures in rows, with a title.

    Shape:
        (H, W, 3) uint8 each -> one (H', W', 3) uint8.
    """
    height = max(picture.shape[0] for picture in pictures) + GAP
    width = max(picture.shape[1] for picture in pictures) + GAP
    rows = -(-len(pictures) // columns)
    sheet = np.full((TITLE_HEIGHT + rows * height, columns * width, 3), 255, np.uint8)
    cv2.putText(sheet, title, (GAP, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1, cv2.LINE_AA)
    for i, picture in enumerate(pictures):
        top = TITLE_HEIGHT + (i // columns) * height
        left = (i % columns) * width
        sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet
