"""Whether an exported file gives what the model of mmdet or mmseg gives, on real images."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.utils.boxes import match_objects

from .agreement import largest_error
from .graphs.base import Graph
from .onnx.export import ExportOptions
from .predictor.masks import paste_mask

Images = NDArray  # (B, 3, H, W), float32, RGB from 0 to 255
Outputs = dict[str, NDArray]
Run = Callable[[Images], Outputs]  # outputs of all images by name
Expect = Callable[[Images], list[Outputs]]  # what is expected, image by image


@dataclass(frozen=True)
class Limits:
    """What rounding explains: it differs in another order of the same steps.

    Args:
        pixels: Of a side of a box.
        relative: The same in parts of the box's longer side, which comes on top.
        score: Of an object.
        maps: Of features, in parts of the largest value.
        label_pixels: Part of a label map: the two best classes of a pixel may be as good as equal.
        mask_pixels: Part of an object's box, whose corners round too.
        lost: Part of the objects: an overlap may lie on the threshold of the suppression.
    """

    pixels: float = 0.1
    relative: float = 1e-3
    score: float = 1e-3
    maps: float = 5e-4
    label_pixels: float = 1e-3
    mask_pixels: float = 1e-2
    lost: float = 0.01


FLOAT = Limits()
HALF = Limits(2.0, 2e-2, 2e-2, 2e-2, 2e-2, 0.1, 0.05)  # weights of 11 bits


@dataclass(frozen=True)
class Error:
    """One measure of the disagreement.

    Args:
        name: What is measured.
        value: How much.
        limit: The most that rounding explains.
    """

    name: str
    value: float
    limit: float

    @property
    def agrees(self) -> bool:
        return self.value <= self.limit  # false for NaN

    def __str__(self) -> str:
        return f'{self.name} {self.value:.3g} (limit {self.limit:.3g})'


def make_batches(image: NDArray, options: ExportOptions) -> list[Images]:
    """The image as it is, and two smaller ones of another shape, where sizes are open.

    Args:
        image: (H, W, 3), RGB, resized as the config says.
        options: Those of the export; a fixed shape or batch is kept.
    """
    height, width = image.shape[:2]
    # odd sides, so that no step divides them
    smaller = (max(height // 2, 32) | 1, max(width * 2 // 3, 32) | 1)
    sizes = [options.shape] if options.shape else [(height, width), smaller]
    counts = [options.batch] * 2 if options.batch else [1, 2]
    if options.shape:
        sizes *= 2 if options.batch is None else 1
    return [batch(image, size, count) for size, count in zip(sizes, counts, strict=False)]


def batch(image: NDArray, size: tuple[int, int], count: int) -> Images:
    """``count`` images of ``size``, every second one mirrored."""
    if image.shape[:2] != tuple(size):
        image = cv2.resize(image, tuple(size)[::-1], interpolation=cv2.INTER_AREA)
    images = [image if i % 2 == 0 else image[:, ::-1] for i in range(count)]
    return np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2), dtype=np.float32)


@torch.no_grad()
def expect_model(model: nn.Module, images: Images, sample: Any) -> list[Outputs]:
    """What a model of mmdet or mmseg predicts, of every image, in pixels of ``images``.

    Args:
        model: As built and loaded, not fused.
        images: Whole numbers, as an image file has them.
        sample: A data sample of the model for one image; a copy of it gets the sizes.
    """
    size = tuple(images.shape[2:])
    sample = deepcopy(sample)
    sample.set_metainfo(
        dict(img_shape=size, ori_shape=size, pad_shape=size, batch_input_shape=size,
             scale_factor=(1.0, 1.0))
    )  # fmt: skip
    if not hasattr(model, 'bbox_head') and not hasattr(model, 'roi_head'):
        del sample.pad_shape  # mmseg resizes to it, after it padded
    # both read images as BGR
    inputs = [torch.from_numpy(np.ascontiguousarray(image[::-1])).byte() for image in images]
    data = dict(inputs=inputs, data_samples=[deepcopy(sample) for _ in inputs])
    return [plain_outputs(found) for found in model.test_step(data)]


def plain_outputs(sample: Any) -> Outputs:
    """The arrays of a data sample."""
    if hasattr(sample, 'pred_sem_seg'):
        return {'label_map': sample.pred_sem_seg.data[0].cpu().numpy()}
    found = sample.pred_instances
    boxes = found.bboxes if isinstance(found.bboxes, torch.Tensor) else found.bboxes.tensor
    arrays = {'boxes': boxes, 'scores': found.scores, 'labels': found.labels}
    if 'masks' in found:
        arrays['masks'] = torch.as_tensor(found.masks)
    return {name: value.cpu().numpy() for name, value in arrays.items()}


@torch.no_grad()
def expect_maps(graph: Graph, backbone: nn.Module, images: Images) -> list[Outputs]:
    """The maps of a backbone, named as those of its graph."""
    maps = backbone(graph.normalize(torch.from_numpy(images)))
    return singles(dict(zip(graph.output_names, (m.numpy() for m in maps), strict=True)))


@torch.no_grad()
def run_graph(graph: Graph, images: Images) -> Outputs:
    """The outputs of the graph itself."""
    values = graph(torch.from_numpy(images))
    return {name: v.numpy() for name, v in zip(graph.output_names, values, strict=True)}


def expect_graph(graph: Graph, images: Images) -> list[Outputs]:
    """The outputs of the graph itself but masks, which no other form of it gives."""
    found = run_graph(graph, images)
    found.pop('masks', None)
    return singles(found)


def singles(outputs: Outputs) -> list[Outputs]:
    """Outputs of a batch, image by image."""
    count = len(next(iter(outputs.values())))
    return [{name: value[i] for name, value in outputs.items()} for i in range(count)]


def compare(
    run: Run, expect: Expect, batches: Sequence[Images], limits: Limits = FLOAT
) -> list[Error]:
    """How far a file is from what is expected, at worst over all images.

    Args:
        run: Runs the file.
        expect: Gives what is expected, such as :func:`expect_model` with its model.
        batches: Images; see :func:`make_batches`.
        limits: What rounding explains.
    """
    worst: dict[str, Error] = {}
    for images in batches:
        for expected, found in zip(expect(images), singles(run(images)), strict=True):
            for error in errors_of(expected, found, limits):
                known = worst.get(error.name)
                if known is None or not error.value <= known.value:
                    worst[error.name] = error
    return list(worst.values())


def errors_of(expected: Outputs, found: Outputs, limits: Limits) -> Iterator[Error]:
    """The measures that suit the outputs of one image."""
    if 'boxes' in expected:
        yield from compare_objects(expected, found, limits)
    elif 'label_map' in expected:
        one, other = expected['label_map'], found['label_map']
        if one.shape != other.shape:
            yield Error(f'label map of {other.shape} in place of {one.shape}', np.inf, 0)
        else:
            differ = float((one != other).mean())
            yield Error('share of pixels that differ', differ, limits.label_pixels)
    else:
        for name, value in expected.items():
            error = largest_error(value, found[name])
            yield Error(f'{name}: relative error', error, limits.maps)


def compare_objects(expected: Outputs, found: Outputs, limits: Limits = FLOAT) -> list[Error]:
    """Objects of one label that overlap are compared; those without a partner are counted."""
    expected, found = without_empty(expected), without_empty(found)
    pairs, alone = match(expected, found, limits)
    lost = int(limits.lost * len(expected['scores']))
    errors = [Error('objects without a partner', alone, lost)]
    if not pairs:
        return errors
    rows, columns = map(list, zip(*pairs, strict=True))
    ours, other = found['boxes'][columns], expected['boxes'][rows]
    allowed = limits.pixels + limits.relative * (other[:, 2:] - other[:, :2]).max(axis=1)
    off = np.abs(ours - other).max(axis=1)
    worst = int((off / allowed).argmax())
    errors.append(Error('box error in pixels', float(off[worst]), float(allowed[worst])))
    drift = np.abs(found['scores'][columns] - expected['scores'][rows]).max()
    errors.append(Error('score error', float(drift), limits.score))
    if 'masks' in expected:
        differ = max(mask_error(expected, found, *pair) for pair in pairs)
        errors.append(Error('share of mask pixels that differ', differ, limits.mask_pixels))
    return errors


def without_empty(outputs: Outputs) -> Outputs:
    """Objects without the places that have none."""
    filled = outputs['scores'] > 0
    return {name: value[filled] for name, value in outputs.items()}


def match(
    expected: Outputs, found: Outputs, limits: Limits = FLOAT
) -> tuple[list[tuple[int, int]], int]:
    """Pairs of equal objects, and how many have no partner that should have one.

    An object at the lowest score that is kept may be in one list and not in the other.
    """
    both = (expected['scores'], found['scores'])
    near = np.abs(both[0][:, None] - both[1][None]) <= 10 * limits.score
    pairs = match_objects(expected, found, near)
    lowest = max((float(s.min()) for s in both if len(s)), default=0.0) + limits.score
    alone = sum(
        int((np.delete(scores, [pair[side] for pair in pairs]) > lowest).sum())
        for side, scores in enumerate(both)
    )
    # all that is left lies at the cut, unless nothing was found where something should be
    return pairs, alone if pairs else max(map(len, both))


def mask_error(expected: Outputs, found: Outputs, row: int, column: int) -> float:
    """Pixels of the mask that differ, as a share of the object's box."""
    true, box = expected['masks'][row], expected['boxes'][row]
    mask = paste_mask(found['masks'][column], found['boxes'][column], true.shape)
    area = max(float(np.prod(np.clip(box[2:] - box[:2], 1, None))), 64.0)
    return float((mask != true).sum()) / area


def refuse_disagreement(errors: Sequence[Error], images: str) -> None:
    """Stop where rounding does not explain an error.

    Raises:
        UserError: With every measure.
    """
    if not all(error.agrees for error in errors):
        raise UserError(
            f'the exported model disagrees with the original, and nothing was written: '
            f'{"; ".join(map(str, errors))} on {images}'
        )
