"""Whether a file of ONNX gives what the model of the host gives, on a real image."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mmeffvit.deploy.agreement import largest_error, pairwise_iou
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.deploy.predictor.masks import paste_mask
from mmeffvit.errors import UserError

from .export import INPUT, ExportOptions

Images = NDArray  # (B, 3, H, W), float32, RGB from 0 to 255
Outputs = dict[str, NDArray]

# float32 rounds otherwise in another order of the same steps; a wrong step is far above
PIXELS, RELATIVE = 0.1, 1e-3  # of a box, and in parts of its longer side
SCORE = 1e-3
MAPS = 5e-4  # of features, in parts of the largest value
EQUAL_PIXELS = 0.999  # the two best classes of a pixel may be as good as equal
EQUAL_MASK_PIXELS = 0.99  # of the pixels inside an object's box, whose corners round too
LOST = 0.01  # part of the objects: an overlap may lie on the threshold of the suppression


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


def run_onnx(path: str | PathLike, images: Images, threads: int | None = None) -> Outputs:
    """The outputs of a file by name, from ONNX Runtime on the CPU."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if threads:
        settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {INPUT: images}), strict=True))


def test_batches(image: NDArray, options: ExportOptions) -> list[Images]:
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


test_batches.__test__ = False  # pytest takes it for one of its own


def batch(image: NDArray, size: tuple[int, int], count: int) -> Images:
    """``count`` images of ``size``, every second one mirrored."""
    if image.shape[:2] != tuple(size):
        image = cv2.resize(image, tuple(size)[::-1], interpolation=cv2.INTER_AREA)
    images = [image if i % 2 == 0 else image[:, ::-1] for i in range(count)]
    return np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2), dtype=np.float32)


@torch.no_grad()
def run_host(model: nn.Module, images: Images, sample: Any) -> list[Outputs]:
    """What the model of the host predicts, of every image, in pixels of ``images``.

    Args:
        model: As built and loaded, not fused.
        images: Whole numbers, as an image file has them.
        sample: A data sample of the host for one image; a copy of it gets the sizes.
    """
    size = tuple(images.shape[2:])
    sample = deepcopy(sample)
    sample.set_metainfo(
        dict(img_shape=size, ori_shape=size, pad_shape=size, batch_input_shape=size,
             scale_factor=(1.0, 1.0))
    )  # fmt: skip
    if not hasattr(model, 'bbox_head') and not hasattr(model, 'roi_head'):
        del sample.pad_shape  # mmseg resizes to it, after it padded
    # the hosts read images as BGR
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


def compare(
    path: str | PathLike, graph: Graph, model: nn.Module, batches: Sequence[Images], sample: Any
) -> list[Error]:
    """How far a file is from the model of the host, at worst over all batches.

    Args:
        path: The file.
        graph: What it was made of.
        model: As built and loaded, not fused; for a backbone's file, the backbone.
        batches: Images; see :func:`test_batches`.
        sample: See :func:`run_host`; unused for a backbone.
    """
    worst: dict[str, Error] = {}
    for images in batches:
        found = run_onnx(path, images)
        if graph.task == 'features':
            errors = compare_features(graph, model, images, found)
        else:
            expected = run_host(model, images, sample)
            singles = [{k: v[i] for k, v in found.items()} for i in range(len(images))]
            check = compare_label_maps if 'label_map' in found else compare_objects
            errors = [e for pair in zip(expected, singles, strict=True) for e in check(*pair)]
        for error in errors:
            known = worst.get(error.name)
            if known is None or not error.value <= known.value:
                worst[error.name] = error
    return list(worst.values())


@torch.no_grad()
def compare_features(
    graph: Graph, backbone: nn.Module, images: Images, found: Outputs
) -> list[Error]:
    maps = backbone(graph.normalise(torch.from_numpy(images)))
    return [
        Error(f'{name}: relative error', largest_error(expected.numpy(), found[name]), MAPS)
        for name, expected in zip(graph.output_names, maps, strict=True)
    ]


def compare_label_maps(expected: Outputs, found: Outputs) -> list[Error]:
    one, other = expected['label_map'], found['label_map']
    if one.shape != other.shape:
        return [Error(f'label map of {other.shape} in place of {one.shape}', np.inf, 0)]
    return [Error('share of pixels that differ', float((one != other).mean()), 1 - EQUAL_PIXELS)]


def compare_objects(expected: Outputs, found: Outputs) -> list[Error]:
    """Objects of one label that overlap are compared; those without a partner are counted."""
    filled = found['scores'] > 0
    found = {name: value[filled] for name, value in found.items()}
    pairs, alone = match(expected, found)
    errors = [Error('objects without a partner', alone, int(LOST * len(expected['scores'])))]
    if not pairs:
        return errors
    rows, columns = map(list, zip(*pairs, strict=True))
    ours, other = found['boxes'][columns], expected['boxes'][rows]
    sides = (other[:, 2:] - other[:, :2]).max(axis=1)
    off = np.abs(ours - other).max(axis=1)
    worst = int((off / (PIXELS + RELATIVE * sides)).argmax())
    limit = PIXELS + RELATIVE * float(sides[worst])
    errors.append(Error('box error in pixels', float(off[worst]), limit))
    drift = np.abs(found['scores'][columns] - expected['scores'][rows]).max()
    errors.append(Error('score error', float(drift), SCORE))
    if 'masks' in expected:
        errors.append(compare_masks(expected, found, pairs))
    return errors


def match(expected: Outputs, found: Outputs) -> tuple[list[tuple[int, int]], int]:
    """Pairs of equal objects, and how many have no partner that should have one.

    An object at the lowest score that is kept may be in one list and not in the other.
    """
    overlaps = pairwise_iou(found['boxes'], expected['boxes']).T
    overlaps[expected['labels'][:, None] != found['labels'][None]] = 0
    near = np.abs(expected['scores'][:, None] - found['scores'][None]) <= 10 * SCORE
    overlaps[~near] = 0
    pairs = []
    for row in range(len(overlaps)):
        column = int(overlaps[row].argmax()) if overlaps.shape[1] else 0
        if overlaps.shape[1] and overlaps[row, column] > 0.5:
            pairs.append((row, column))
            overlaps[:, column] = 0
    both = (expected['scores'], found['scores'])
    lowest = max((float(s.min()) for s in both if len(s)), default=0.0) + SCORE
    alone = sum(
        int((np.delete(scores, [pair[side] for pair in pairs]) > lowest).sum())
        for side, scores in enumerate(both)
    )
    # all that is left lies at the cut, unless nothing was found where something should be
    return pairs, alone if pairs else max(map(len, both))


def compare_masks(expected: Outputs, found: Outputs, pairs: Sequence[tuple[int, int]]) -> Error:
    shape = expected['masks'].shape[1:]
    differ = 0.0
    for row, column in pairs:
        mask = paste_mask(found['masks'][column], found['boxes'][column], shape)
        box = expected['boxes'][row]
        area = max(float(np.prod(np.clip(box[2:] - box[:2], 1, None))), 64.0)
        differ = max(differ, float((mask != expected['masks'][row]).sum()) / area)
    return Error('share of mask pixels that differ', differ, 1 - EQUAL_MASK_PIXELS)


def refuse_disagreement(errors: Sequence[Error], said: Mapping[str, Any]) -> None:
    """Stop where rounding does not explain an error.

    Raises:
        UserError: With every measure.
    """
    if all(error.agrees for error in errors):
        return
    raise UserError(
        f'the exported model disagrees with the model of the config, and nothing was written: '
        f'{"; ".join(map(str, errors))} on {said["image"]}'
    )
