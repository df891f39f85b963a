"""Which parts of a graph int8 harms most: a measured search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import signal_to_noise
from mmeffvit.utils.onnx import open_session, run_session

from .quantizer import Quantizer, last_values

GROUPS = 16  # parts that are tried one at a time
IMAGES = 4  # that each is tried on
WORST = 2.0  # a part is sensitive if its noise is so many times the mean of all
MOST = 0.25  # of the parts may be left in float


@dataclass(frozen=True)
class Group:
    """Nodes that follow each other, and the noise that they alone make.

    Args:
        nodes: Names.
        decibels: Signal to noise at the end of the network with these alone in int8.
    """

    nodes: tuple[str, ...]
    decibels: float

    @property
    def noise(self) -> float:
        """Power of the noise per power of the signal."""
        return 10 ** (-self.decibels / 10)


def split(nodes: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """``count`` parts of nearly equal length, in order; fewer where there are fewer nodes."""
    count = min(count, len(nodes))
    ends = [len(nodes) * part // count for part in range(count + 1)]
    return [tuple(nodes[a:b]) for a, b in pairwise(ends)]


def measure(
    quantizer: Quantizer, images: Sequence[NDArray], count: int = GROUPS
) -> tuple[list[Group], Callable[[Sequence[str]], float]]:
    """Quantize the parts of a graph one at a time.

    Args:
        quantizer: Of the graph.
        images: (1, 3, H, W) each.
        count: Number of parts; the time is proportional to it.

    Returns:
        The parts in order, and the function that gives the signal to noise of any choice of nodes.
    """
    ends = last_values(quantizer.float_model)
    trusted = open_session(quantizer.with_outputs(ends).SerializeToString())
    expected = [run_session(trusted, image) for image in images]

    def decibels(nodes: Sequence[str]) -> float:
        tried = open_session(quantizer.quantized(nodes, ends).SerializeToString())
        pairs = [(e, run_session(tried, image)) for e, image in zip(expected, images, strict=True)]
        # each tensor counts alike, however large its values are
        ratios = [
            10 ** (-signal_to_noise([e[name] for e, _ in pairs], [f[name] for _, f in pairs]) / 10)
            for name in ends
        ]
        return -10 * log10(sum(ratios) / len(ratios))

    groups = [Group(nodes, decibels(nodes)) for nodes in split(quantizer.nodes, count)]
    return groups, decibels


def sensitive(groups: Sequence[Group]) -> list[Group]:
    """The worst groups: each makes :data:`WORST` times the mean noise, at most :data:`MOST`."""
    mean = sum(group.noise for group in groups) / max(len(groups), 1)
    worst = sorted(
        (group for group in groups if group.noise > WORST * mean),
        key=lambda group: group.noise,
        reverse=True,
    )
    return worst[: max(1, int(MOST * len(groups)))]
