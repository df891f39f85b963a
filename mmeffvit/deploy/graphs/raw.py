"""Graphs that end with the network's predictions, for runtimes without operators that select.

Phones run convolutions on a GPU or an accelerator, which have no NMS, no sorting and no argmax: the
application does these steps on the CPU.
"""

from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError

from . import ops
from .base import DetectionGraph, Graph
from .dense import DenseGraph
from .plain import SegmentorGraph


class RawGraph(nn.Module):
    """A graph without its last steps.

    A subclass implements ``results(x, size)`` as a :class:`Graph` does. Its
    ``finish(*values, size=...)`` returns the outputs of the full graph from the outputs of this
    one, for images of that size.

    Shape:
        images (1, 3, H, W) -> the outputs in the order of ``output_names``.

    Attributes:
        remaining: What remains for the application, in words.
    """

    output_names: tuple[str, ...]
    remaining: str

    def __init__(self, graph: Graph, size: tuple[int, int]) -> None:
        super().__init__()
        self.full = graph
        self.task = graph.task
        self.preprocessing = graph.preprocessing

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        size = (images.shape[2], images.shape[3])
        return self.results(self.full.normalize(images), size)


class RawBoxes(RawGraph):
    """All boxes of a dense detector with the scores of all classes.

    Shape:
        images (1, 3, H, W) -> boxes (1, N, 4): left, top, right and bottom in pixels of the images,
        outside of which boxes of SSDLite may end; scores (1, N, classes), in [0, 1].
    """

    output_names = ('boxes', 'scores')
    remaining = 'it returns the boxes of all priors, before NMS'

    def __init__(self, graph: DenseGraph, size: tuple[int, int]) -> None:
        super().__init__(graph, size)
        with torch.no_grad():
            levels = graph.levels(graph.normalize(torch.zeros(1, 3, *size)))
            self.lengths = [scores.shape[1] for scores, *_ in levels]

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        scores, deltas, priors = zip(*self.full.levels(x), strict=True)
        boxes = self.full.decode(torch.cat(priors)[None], torch.cat(deltas, dim=1))
        if self.full.clips_candidates:
            boxes = torch.minimum(boxes.relu(), sides_of(boxes, size))
        return boxes, torch.cat(scores, dim=1)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        levels = []
        parts = (value.split(self.lengths, dim=1) for value in values)
        for boxes, scores in zip(*parts, strict=True):
            best, index, labels = self.full.select(scores)
            levels.append((ops.gather(boxes, index), best, labels))
        candidates = (torch.cat(part, dim=1) for part in zip(*levels, strict=True))
        return self.full.suppress(*candidates, size)


class VisionBoxes(RawBoxes):
    """All boxes of a dense detector, as the NMS of Core ML takes them.

    Shape:
        images (1, 3, H, W) -> raw_confidence (N, classes), in [0, 1]; raw_coordinates (N, 4): x and
        y of the center, width and height in normalized coordinates.
    """

    output_names = ('raw_confidence', 'raw_coordinates')
    remaining = 'Core ML finds the objects, with the thresholds of the config'

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        boxes, scores = super().results(x, size)
        corners = boxes[0] / sides_of(boxes, size)
        start, end = corners[:, :2], corners[:, 2:]
        return scores[0], torch.cat([(start + end) / 2, end - start], dim=1)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        confidence, coordinates = values
        center, half = coordinates[:, :2], coordinates[:, 2:] / 2
        boxes = torch.cat([center - half, center + half], dim=1) * sides_of(coordinates, size)
        return super().finish(boxes[None], confidence[None], size=size)


class Candidates(RawGraph):
    """The objects of a detector before NMS; the application has to run class-wise NMS itself.

    Shape:
        images (1, 3, H, W) -> boxes (1, N, 4), scores (1, N) and labels (1, N) in the order of the
        levels; scores of -1 mark empty entries.
    """

    output_names = DetectionGraph.output_names
    remaining = 'its boxes are candidates before NMS'

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.full.candidates(x, size)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.full.suppress(*values, size)


class FixedLabelMap(RawGraph):
    """The label map, without a search for classes, whose number would depend on the image.

    Shape:
        images (1, 3, H, W) -> label_map (1, H, W), int64.
    """

    output_names = ('label_map',)
    remaining = 'its label map has the size of the image'

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.full.resized(self.full.logits(x), x.shape[2:], size),)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return values


class VisionLabelMap(FixedLabelMap):
    """The label map of one image.

    Shape:
        images (1, 3, H, W) -> label_map (H, W), int64.
    """

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (super().results(x, size)[0][0],)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (values[0][None],)


class RawLogits(RawGraph):
    """The logits of a segmentor at the resolution of its head.

    Shape:
        images (1, 3, H, W) -> logits (1, channels, h, w), for the images with their padding.
    """

    output_names = ('logits',)
    remaining = 'its logits have the resolution of the head, and the application takes their argmax'

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.full.logits(x),)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.full.label_map(*values, self.full.preprocessing.padded(size), size),)


def sides_of(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Width, height, width and height, for the four coordinates of boxes."""
    height, width = size
    return boxes.new_tensor((width, height, width, height))


def without_selection(
    graph: Graph,
    size: tuple[int, int],
    *,
    boxes: type[RawGraph] = RawBoxes,
    labels: type[RawGraph] = RawLogits,
) -> Graph | RawGraph:
    """The graph as ``boxes`` of a dense detector or ``labels`` of a segmentor; others unchanged.

    Raises:
        UserError: If it selects objects inside the network.
    """
    if isinstance(graph, DenseGraph):
        return boxes(graph, size).eval()
    if isinstance(graph, SegmentorGraph):
        return labels(graph, size).eval()
    if 'boxes' in graph.output_names:
        raise UserError(
            f'{type(graph).__name__} selects regions inside the network, for which only .onnx and '
            '.xml have operators; use one of these, or the backbone only (--backbone-only)'
        )
    return graph


# for Apple's Vision framework: without NMS, and for one image
for_vision = partial(without_selection, boxes=VisionBoxes, labels=VisionLabelMap)
# with outputs of fixed shapes: without NMS, and with the label map of all classes
before_nms = partial(without_selection, boxes=Candidates, labels=FixedLabelMap)
