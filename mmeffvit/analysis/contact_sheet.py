"""Contact sheets with predictions next to the ground truth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement, InstanceData, PixelData
from PIL import Image, ImageDraw
from torch import Tensor

from mmeffvit.data.formats.label_maps import IGNORED
from mmeffvit.inference.drawing import draw, draw_detections, load_font
from mmeffvit.inference.results import Detections, LabelMap, Result, name_of
from mmeffvit.utils.boxes import match_objects
from mmeffvit.utils.images import read_image, write_image
from mmeffvit.utils.palette import make_palette
from mmeffvit.utils.text import counted, shortened

TITLE_HEIGHT = 28  # pixels
CAPTION_HEIGHT = 22  # pixels
FONT_SIZE = 14
GAP = 6  # pixels
NUM_IMAGES = 12  # of the worst images, and of random ones
MAX_RANKED = 200  # random images, of which the worst are shown
MAX_LEGEND = 40  # names of classes
SIDE = 384  # pixels of the longer side of an image
SCORE_THR = 0.3  # minimum score of drawn predictions
COLUMNS = 2  # of pairs: viewers shrink wider sheets until captions are unreadable
MAX_NAME = 40  # characters of the name of an image
PADDING = 235  # gray value


@dataclass
class Pair:
    """An image with its ground truth and its predictions, both in its pixels."""

    image: np.ndarray  # (H, W, 3) uint8 BGR
    true: Result
    found: Result
    captions: tuple[str, str]  # of both
    errors: float  # how wrong the predictions are, in [0, 1]
    crossed: tuple[np.ndarray | None, np.ndarray | None] = (None, None)  # missed, false alarms


def draw_contact_sheet(runner: Runner, path: Path, split: str) -> None:
    """Draw ground truth and predictions of the images in the test loop side by side into a PNG.

    The worst images come first, beside a random dozen if there are more than that.
    """
    total = len(runner.test_loop.dataloader.dataset)
    # a random sample: neighbors are often frames of one film
    chosen = np.random.default_rng(0).permutation(total)[:MAX_RANKED].tolist()
    pairs = list(_predict(runner, chosen))
    ranked = sorted(pairs, key=lambda pair: -pair.errors)[:NUM_IMAGES]
    shown, what = ranked, 'worst first'
    if total > NUM_IMAGES:
        shown = [pair for both in zip(ranked, pairs, strict=False) for pair in both]
        what = f'left the worst of {len(pairs)}, right random ones'
    classes = runner.test_loop.dataloader.dataset.metainfo['classes']
    background = np.mean([pair.image.mean(axis=(0, 1)) for pair in pairs], axis=0)[::-1]
    palette = make_palette(None, len(classes), background)
    if isinstance(pairs[0].true, LabelMap):
        palette[IGNORED:] = 0
    size = tuple(max(pair.image.shape[side] for pair in shown) for side in (0, 1))
    tiles = [np.concatenate(list(_halves(pair, palette, size)), axis=1) for pair in shown]
    title = f'ground truth and predictions, {counted(total, "image")} of the {split} split: {what}'
    if any(crossed is not None for crossed in pairs[0].crossed):
        title += '; missed objects and false alarms are crossed out'
    sheet = montage(tiles, min(COLUMNS, len(tiles)), title)
    drawn = [side.labels.ravel() for pair in shown for side in (pair.true, pair.found)]
    present = np.unique(np.concatenate(drawn))
    names = [(name_of(k, classes), palette[k]) for k in present if k < len(classes)]
    sheet = np.concatenate([sheet, legend(names, sheet.shape[1])])
    write_image(path, cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))


def _predict(runner: Runner, indices: Sequence[int]) -> Iterator[Pair]:
    """The images of these indices, with ground truth and predictions."""
    loader = runner.test_loop.dataloader
    classes = loader.dataset.metainfo['classes']
    runner.model.eval()
    for index in indices:
        with torch.no_grad():
            (sample,) = runner.model.test_step(loader.collate_fn([loader.dataset[index]]))
        image = read_image(sample.img_path)
        factor = SIDE / max(image.shape[:2])
        image = cv2.resize(image, None, fx=factor, fy=factor)
        scale_sample(sample, factor, image.shape[:2])
        make_pair = pair_of_boxes if 'pred_instances' in sample else pair_of_maps
        yield make_pair(image, sample, tuple(classes))


def pair_of_maps(image: np.ndarray, sample: BaseDataElement, classes: tuple[str, ...]) -> Pair:
    true, found = (sample.get(key).data[0].cpu().numpy() for key in ('gt_sem_seg', 'pred_sem_seg'))
    is_known = true < len(classes)  # others are ignored
    errors = float((true != found)[is_known].mean()) if is_known.any() else 0.0
    maps = [LabelMap(None, None, labels, classes) for labels in (true, found)]
    return Pair(image, *maps, captions(sample), errors)


def pair_of_boxes(image: np.ndarray, sample: BaseDataElement, classes: tuple[str, ...]) -> Pair:
    true = detections_of(sample.gt_instances, classes)
    found = detections_of(sample.pred_instances, classes).above(SCORE_THR)
    missed, false = np.ones(len(true), bool), np.ones(len(found), bool)
    for hit, seen in match_objects(vars(found), vars(true), np.True_):
        missed[seen] = false[hit] = False
    wrong = int(missed.sum() + false.sum())
    errors = wrong / max(wrong + int((~missed).sum()), 1)
    return Pair(image, true, found, captions(sample), errors, (missed, false))


def detections_of(instances: InstanceData, classes: Sequence[str]) -> Detections:
    """Predictions, or ground truth with scores of 1, in descending order of scores."""
    labels = instances.labels.cpu().numpy()
    scores = instances.scores.cpu().numpy() if 'scores' in instances else np.ones(len(labels))
    masks = instances.get('masks')
    if masks is not None and not isinstance(masks, np.ndarray):
        masks = masks.to_ndarray().astype(bool)  # ground truth, in a mask class of mmdet
    boxes = instances.bboxes.cpu().numpy()
    found = Detections(None, None, boxes, scores, labels, tuple(classes), masks)
    return found.select(np.argsort(-scores, kind='stable'))


def _halves(pair: Pair, palette: np.ndarray, size: tuple[int, int]) -> Iterator[np.ndarray]:
    """The tiles of ground truth and predictions, without names."""
    for result, crossed, caption in zip(
        (pair.true, pair.found), pair.crossed, pair.captions, strict=True
    ):
        image = pair.image.copy()
        if isinstance(result, LabelMap):
            image = draw(image, result, palette)
        else:
            image = draw_detections(image, result, palette, crossed, with_names=False)
        yield tile(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), caption, size)


def legend(names: Sequence[tuple[str, np.ndarray]], width: int) -> np.ndarray:
    """Names beside squares of their colors in rows: (H, ``width``, 3) uint8."""
    font, places, x, y = load_font(FONT_SIZE), [], GAP, GAP
    for name, color in names[:MAX_LEGEND]:
        text = shortened(name, MAX_NAME)
        needed = CAPTION_HEIGHT + round(font.getlength(text)) + 3 * GAP
        if x + needed > width and x > GAP:
            x, y = GAP, y + CAPTION_HEIGHT
        places.append((text, color, x, y))
        x += needed
    canvas = Image.new('RGB', (width, y + CAPTION_HEIGHT + GAP), (255, 255, 255))
    pen = ImageDraw.Draw(canvas)
    for text, color, left, top in places:
        square = (left, top, left + FONT_SIZE, top + FONT_SIZE)
        pen.rectangle(square, fill=tuple(color.tolist()), outline=(0, 0, 0))
        pen.text((left + CAPTION_HEIGHT, top - 1), text, fill=(0, 0, 0), font=font)
    return np.asarray(canvas)


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
