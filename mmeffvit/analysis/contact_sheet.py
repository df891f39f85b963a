"""Contact sheets with predictions next to the ground truth."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement, InstanceData, PixelData
from PIL import Image, ImageDraw
from torch import Tensor

from mmeffvit.inference.drawing import load_font
from mmeffvit.utils.images import read_image, write_image
from mmeffvit.utils.text import counted, shortened, without_formulas

TITLE_HEIGHT = 28  # pixels
CAPTION_HEIGHT = 22  # pixels
FONT_SIZE = 14
GAP = 6  # pixels
NUM_IMAGES = 12
SIDE = 384  # pixels of the longer side of an image
SCORE_THR = 0.3  # minimum score of drawn predictions
COLUMNS = 2  # of pairs: viewers shrink wider sheets until captions are unreadable
MAX_NAME = 40  # characters of the name of an image
PADDING = 235  # gray value


def draw_contact_sheet(runner: Runner, path: Path) -> None:
    """Draw the first test images with ground truth and predictions side by side into a PNG."""
    pairs = list(islice(_draw_pairs(runner), NUM_IMAGES))
    total = len(runner.test_loop.dataloader.dataset)
    heights, widths = zip(*(half.shape[:2] for pair in pairs for half, _ in pair), strict=True)
    size = max(heights), max(widths)
    tiles = [np.concatenate([tile(*half, size) for half in pair], axis=1) for pair in pairs]
    title = f'ground truth and predictions, {len(pairs)} of {counted(total, "test image")}'
    sheet = montage(tiles, min(COLUMNS, len(tiles)), title)
    write_image(path, cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))


def _draw_pairs(runner: Runner) -> Iterator[tuple[tuple[np.ndarray, str], ...]]:
    """Ground truth and prediction of every image, each with its caption."""
    loader = runner.test_loop.dataloader
    visualizer = runner.visualizer
    visualizer.dataset_meta = loader.dataset.metainfo
    runner.model.eval()
    for batch in loader:
        with torch.no_grad():
            samples = runner.model.test_step(batch)
        for sample in samples:
            image = cv2.cvtColor(read_image(sample.img_path), cv2.COLOR_BGR2RGB)
            factor = SIDE / max(image.shape[:2])
            large = cv2.resize(image, None, fx=factor, fy=factor)
            scale_sample(sample, factor, large.shape[:2])
            options = dict(pred_score_thr=SCORE_THR) if 'pred_instances' in sample else {}
            halves = []  # drawn one by one: mmseg's visualizer keeps the last of two only
            with without_formulas():
                for drawn in (dict(draw_pred=False), dict(draw_gt=False)):
                    visualizer.add_datasample('sheet', large, sample, **drawn, **options)
                    halves.append(visualizer.get_image())
            yield tuple(zip(halves, captions(sample), strict=True))


def captions(sample: BaseDataElement) -> tuple[str, str]:
    """The captions of ground truth and prediction."""
    name = shortened(Path(sample.img_path).name, MAX_NAME)
    if 'pred_instances' not in sample:
        return name, 'prediction'
    scores = sample.pred_instances.scores
    found = int((scores >= SCORE_THR).sum())
    highest = f' (highest {float(scores.max()):.2g})' if len(scores) and not found else ''
    return (
        f'{name}: {counted(len(sample.gt_instances), "object")}',
        f'{counted(found, "object")} above {SCORE_THR}{highest}',
    )


def tile(image: np.ndarray, caption: str, size: tuple[int, int]) -> np.ndarray:
    """Center an image of (H, W, 3) in a tile of ``size`` below its caption."""
    height, width = size
    top, left = ((full - side) // 2 for full, side in zip(size, image.shape[:2], strict=True))
    full = np.full((CAPTION_HEIGHT + height, width, 3), PADDING, np.uint8)
    full[:CAPTION_HEIGHT] = 255
    top += CAPTION_HEIGHT
    full[top : top + image.shape[0], left : left + image.shape[1]] = image
    canvas = Image.fromarray(full)
    ImageDraw.Draw(canvas).text((GAP, 2), caption, fill=(0, 0, 0), font=load_font(FONT_SIZE))
    return np.asarray(canvas)


def scale_sample(sample: BaseDataElement, factor: float, size: tuple[int, int]) -> None:
    """Scale the annotations of a sample with its image, in place, by ``factor`` to ``size``."""
    for name in ('gt_instances', 'pred_instances'):
        if name in sample:
            scale_instances(sample.get(name), factor, size)
    for name in ('gt_sem_seg', 'pred_sem_seg'):
        if name in sample and hasattr(sample.get(name), 'data'):  # of mmseg, (1, H, W)
            labels = sample.get(name).data[0].cpu().numpy().astype(np.int32)
            scaled = cv2.resize(labels, size[::-1], interpolation=cv2.INTER_NEAREST)
            setattr(sample, name, PixelData(data=torch.from_numpy(scaled)[None]))


def scale_instances(instances: InstanceData, factor: float, size: tuple[int, int]) -> None:
    boxes = instances.bboxes
    instances.bboxes = getattr(boxes, 'tensor', boxes) * factor
    masks = instances.get('masks')
    if isinstance(masks, Tensor):  # a prediction
        scaled = [cv2.resize(m.astype(np.uint8), size[::-1]) for m in masks.cpu().numpy()]
        instances.masks = np.stack(scaled).astype(bool) if scaled else np.zeros((0, *size), bool)
    elif masks is not None:  # ground truth, in a mask class of mmdet
        instances.masks = masks.resize(size)


def montage(images: Sequence[np.ndarray], columns: int, title: str) -> np.ndarray:
    """Arrange images of (H, W, 3) uint8 in rows, with a title."""
    height = max(image.shape[0] for image in images) + GAP
    width = max(image.shape[1] for image in images) + GAP
    rows = -(-len(images) // columns)
    sheet = np.full((TITLE_HEIGHT + rows * height, columns * width, 3), 255, np.uint8)
    cv2.putText(sheet, title, (GAP, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1, cv2.LINE_AA)
    for i, image in enumerate(images):
        top = TITLE_HEIGHT + (i // columns) * height
        left = (i % columns) * width
        sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
    return sheet
