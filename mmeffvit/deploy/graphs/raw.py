"""Graphs that end with the network's predictions, for runtimes without operators that select.

Phones run convolutions on a GPU or an accelerator, which have no NMS, no sorting and no argmax: the
application does these steps on the CPU.
"""

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError

from .base import Graph
from .dense import DenseGraph
from .segmentor import SegmentorGraph

SELECTS_INSIDE = (
    '{} selects regions inside the network, for which only .onnx and .xml have operators; use one '
    'of these, or the backbone only (--backbone-only)'
)


class RawGraph(nn.Module):
    """A graph without its last steps.

    ``finish(*values, size=...)`` of a subclass returns the outputs of the whole graph from those of
    this one, for images of that size.

    Args:
        graph: The whole graph.

    Shape:
        images (1, 3, H, W) -> the outputs in the order of ``output_names``.
    """

    output_names: tuple[str, ...]

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.whole = graph
        self.task = graph.task
        self.preprocessing = graph.preprocessing


class RawBoxes(RawGraph):
    """All boxes of a dense detector with the scores of all classes.

    Args:
        graph: The whole graph.
        size: H and W of the images.

    Shape:
        images (1, 3, H, W) -> boxes (1, N, 4): left, top, right and bottom in pixels of the images,
        outside of which those of SSDLite may end; scores (1, N, classes), in [0, 1].
    """

    output_names = ('boxes', 'scores')

    def __init__(self, graph: DenseGraph, size: tuple[int, int]) -> None:
        super().__init__(graph)
        with torch.no_grad():
            levels = graph.levels(graph.normalize(torch.zeros(1, 3, *size)))
            self.lengths = [scores.shape[1] for scores, *_ in levels]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        scores, deltas, priors = zip(*self.whole.levels(self.whole.normalize(images)), strict=True)
        joined = torch.cat(priors)
        every = torch.arange(len(joined), device=images.device)
        boxes = self.whole.decode(joined, torch.cat(deltas, dim=1), every[None])
        if self.whole.clips_candidates:
            height, width = images.shape[2:]
            limits = boxes.new_tensor((width, height, width, height))
            boxes = torch.minimum(boxes.relu(), limits)
        return boxes, torch.cat(scores, dim=1)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        levels = []
        parts = (value.split(self.lengths, dim=1) for value in values)
        for boxes, scores in zip(*parts, strict=True):
            best, index, labels = self.whole.select(scores)
            chosen = boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
            levels.append((chosen, best, labels))
        candidates = (torch.cat(part, dim=1) for part in zip(*levels, strict=True))
        return self.whole.suppress(*candidates, size)


class RawLogits(RawGraph):
    """The logits of a segmentor at the resolution of its head.

    Shape:
        images (1, 3, H, W) -> logits (1, channels, h, w), for the images with their padding.
    """

    output_names = ('logits',)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.whole.logits(self.whole.normalize(images)),)

    def finish(self, *values: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return (self.whole.label_map(*values, self.whole.preprocessing.padded(size), size),)


def without_selection(graph: Graph, size: tuple[int, int]) -> Graph | RawGraph:
    """The graph without NMS and without argmax; backbones are returned unchanged.

    Args:
        graph: An export graph.
        size: H and W of the images.

    Raises:
        UserError: If it selects objects inside the network.
    """
    if isinstance(graph, DenseGraph):
        return RawBoxes(graph, size).eval()
    if isinstance(graph, SegmentorGraph):
        return RawLogits(graph).eval()
    if 'boxes' in graph.output_names:
        raise UserError(SELECTS_INSIDE.format(type(graph).__name__))
    return graph
