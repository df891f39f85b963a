"""Comparison of an exported file with the model of mmdet or mmseg, on real images."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mmeffvit.config.datasets import meta_of
from mmeffvit.inference.results import ClassScores, LabelMap, make_result
from mmeffvit.utils.boxes import match_objects

from .agreement import (
    OBJECTS,
    DisagreementError,
    Measure,
    Outputs,
    largest_error,
    without_empty,
    worst,
)
from .formats.onnx.write import ExportOptions
from .graphs.base import Graph, named
from .runtime.predictor import paste_mask

UNMATCHED = 'unmatched objects'
Images = NDArray  # (B, 3, H, W), float32, RGB from 0 to 255
Run = Callable[[Images], Outputs]  # outputs of a batch by name
Steps = Callable[[Outputs], Outputs]  # of the application, after the file
Expect = Callable[[Images], list[Outputs]]  # expected outputs, per image


@dataclass(frozen=True)
class Limits:
    """Tolerances for rounding errors, which depend on the order of the operations."""

    pixels: float = 0.1  # error of a box coordinate in pixels
    relative: float = 1e-3  # additional error, relative to the longer side of the box
    score: float = 1e-3
    maps: float = 5e-4  # relative to the largest value
    label_pixels: float = 1e-3  # fraction of differing pixels, where two classes almost tie
    mask_pixels: float = 1e-2  # fraction of differing mask pixels of an object's box
    lost: float = 0.01  # fraction of unmatched objects, whose IoU may be close to the NMS threshold
    mask_threshold: float = 0.5  # lowest probability of a pixel of a mask


PIXELS = 0.01  # limit of the error of an input, of 255
FLOAT = Limits()
HALF = Limits(2.0, 2e-2, 2e-2, 2e-2, 2e-2, 0.1, 0.05)  # 11-bit significands


def make_batches(image: NDArray, options: ExportOptions) -> list[Images]:
    """An image (H, W, 3) as a batch, and for dynamic sizes two smaller ones of another shape."""
    height, width = image.shape[:2]
    # odd sides, which no stride divides
    smaller = (max(height // 2, 32) | 1, max(width * 2 // 3, 32) | 1)
    sizes = [tuple(options.shape)] * 2 if options.shape else [(height, width), smaller]
    counts = [options.batch] * 2 if options.batch else [1, 2]
    return [batch(image, *pair) for pair in dict.fromkeys(zip(sizes, counts, strict=True))]


def batch(image: NDArray, size: tuple[int, int], count: int) -> Images:
    """``count`` images of ``size``, every second one flipped."""
    if image.shape[:2] != tuple(size):
        image = cv2.resize(image, tuple(size)[::-1], interpolation=cv2.INTER_AREA)
    images = [image if i % 2 == 0 else image[:, ::-1] for i in range(count)]
    return np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2), dtype=np.float32)


@torch.no_grad()
def expect_model(model: nn.Module, images: Images, sample: Any) -> list[Outputs]:
    """Predictions of a model of mmdet or mmseg, not fused, in pixels of ``images``.

    The images have integer values; ``sample`` is the data sample of one, and is copied.
    """
    size = tuple(images.shape[2:])
    sample = deepcopy(sample)
    sample.set_metainfo(meta_of(size))
    if not hasattr(model, 'bbox_head') and not hasattr(model, 'roi_head'):
        del sample.pad_shape  # mmseg would resize to it after padding
    # mmdet and mmseg read images as BGR
    inputs = [torch.from_numpy(np.ascontiguousarray(image[::-1])).byte() for image in images]
    data = dict(inputs=inputs, data_samples=[deepcopy(sample) for _ in inputs])
    return [plain_outputs(found) for found in model.test_step(data)]


def plain_outputs(sample: Any) -> Outputs:
    """The arrays of a data sample."""
    result = make_result(sample.cpu(), ())
    if isinstance(result, LabelMap):
        return {'label_map': result.labels}
    if isinstance(result, ClassScores):
        return {'scores': result.scores}
    arrays = {name: getattr(result, name) for name in (*OBJECTS, 'masks')}
    return {name: value for name, value in arrays.items() if value is not None}


@torch.no_grad()
def expect_maps(graph: Graph, backbone: nn.Module, images: Images) -> list[Outputs]:
    """The maps of a backbone, by their names in its graph."""
    maps = backbone(graph.normalize(torch.from_numpy(images)))
    return singles(named(graph, maps))


@torch.no_grad()
def run_graph(graph: Graph, images: Images) -> Outputs:
    """The outputs of the graph itself."""
    return named(graph, graph(torch.from_numpy(images)))


def expect_graph(graph: Graph, images: Images) -> list[Outputs]:
    """The outputs of the graph itself."""
    return expect_same(partial(run_graph, graph), images)


def expect_same(run: Run, images: Images) -> list[Outputs]:
    """What ``run`` returns, without masks: they are not pasted into the image."""
    found = run(images)
    found.pop('masks', None)
    return singles(found)


def singles(outputs: Outputs) -> list[Outputs]:
    """Outputs of a batch, split into images."""
    count = len(next(iter(outputs.values())))
    return [{name: value[i] for name, value in outputs.items()} for i in range(count)]


def compare(
    run: Run, expect: Expect, batches: Sequence[Images], limits: Limits = FLOAT
) -> list[Measure]:
    """Largest errors of a file over all images, which may have several sizes."""
    errors = [
        error
        for images in batches
        for expected, found in zip(expect(images), singles(run(images)), strict=True)
        for error in errors_of(expected, found, limits)
    ]
    return worst(errors, 'name')


def compare_pixels(expected: NDArray, found: NDArray) -> Measure:
    """Compare an image file as the config's pipeline and as an exported file's predictor read it.

    Both are (3, H, W), RGB from 0 to 255.
    """
    if expected.shape != found.shape:
        sizes = ('{} x {}'.format(*image.shape[1:]) for image in (found, expected))
        return Measure(f'an input of {" instead of ".join(sizes)} pixels', np.inf, maximum=0)
    return Measure('error of input pixels', float(np.abs(expected - found).max()), maximum=PIXELS)


def errors_of(expected: Outputs, found: Outputs, limits: Limits) -> Iterator[Measure]:
    if 'boxes' in expected:
        yield from compare_objects(expected, found, limits)
    elif 'label_map' in expected:
        one, other = expected['label_map'], found['label_map']
        if one.shape != other.shape:
            yield Measure(f'label map of {other.shape} instead of {one.shape}', np.inf, maximum=0)
        else:
            differ = float((one != other).mean())
            yield Measure('fraction of differing pixels', differ, maximum=limits.label_pixels)
    else:
        for name, value in expected.items():
            error = largest_error(value, found[name])
            yield Measure('relative error', error, maximum=limits.maps, output=name)


def compare_objects(expected: Outputs, found: Outputs, limits: Limits = FLOAT) -> list[Measure]:
    """Compare matching objects, and count the unmatched ones."""
    expected, found = without_empty(expected), without_empty(found)
    pairs, unmatched = match(expected, found, limits)
    lost = int(limits.lost * len(expected['scores']))
    errors = [Measure(UNMATCHED, unmatched, maximum=lost)]
    if not pairs:
        return errors
    rows, columns = map(list, zip(*pairs, strict=True))
    ours, other = found['boxes'][columns], expected['boxes'][rows]
    allowed = limits.pixels + limits.relative * (other[:, 2:] - other[:, :2]).max(axis=1)
    off = np.abs(ours - other).max(axis=1)
    last = int((off / allowed).argmax())
    errors.append(Measure('box error in pixels', float(off[last]), maximum=float(allowed[last])))
    difference = np.abs(found['scores'][columns] - expected['scores'][rows]).max()
    errors.append(Measure('score error', float(difference), maximum=limits.score))
    if 'masks' in expected:
        differ = max(mask_error(expected, found, *pair, limits.mask_threshold) for pair in pairs)
        errors.append(
            Measure('fraction of differing mask pixels', differ, maximum=limits.mask_pixels)
        )
    return errors


def match(
    expected: Outputs, found: Outputs, limits: Limits = FLOAT
) -> tuple[list[tuple[int, int]], int]:
    """Pairs of equal objects, and the number of unmatched ones.

    Objects of the lowest score of the longer list are not counted: the other may have no place.
    """
    both = (expected['scores'], found['scores'])
    near = np.abs(both[0][:, None] - both[1][None]) <= 10 * limits.score
    pairs = match_objects(expected, found, near)
    longest = max(map(len, both))
    lowest = max((float(s.min()) for s in both if 0 < len(s) == longest), default=0.0)
    unmatched = sum(
        int((np.delete(scores, [pair[side] for pair in pairs]) > lowest + limits.score).sum())
        for side, scores in enumerate(both)
    )
    # without any pair, all objects are unmatched
    return pairs, unmatched if pairs else longest


def mask_error(expected: Outputs, found: Outputs, row: int, column: int, threshold: float) -> float:
    """Differing pixels of the mask, relative to the area of the box."""
    true, box = expected['masks'][row], expected['boxes'][row]
    mask = paste_mask(found['masks'][column], found['boxes'][column], true.shape, threshold)
    area = max(float(np.prod(np.clip(box[2:] - box[:2], 1, None))), 64.0)
    return float((mask != true).sum()) / area


def check_agreement(errors: Sequence[Measure], images: str) -> None:
    """Raise DisagreementError, with all errors, unless rounding explains them."""
    if not all(error.agrees for error in errors):
        raise DisagreementError(
            f'the exported model disagrees with the original, so nothing was written: '
            f'{"; ".join(map(str, errors))} on {images}'
        )
