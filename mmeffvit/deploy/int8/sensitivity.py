"""Measuring which parts of a graph are most sensitive to int8."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import signal_to_noise
from mmeffvit.utils.onnx import open_session, run_session

from .quantizer import Quantizer, last_values

GROUPS = 16  # parts that are measured one at a time
IMAGES = 4  # for each measurement
NOISE_RATIO = 2.0  # a part is sensitive if its noise exceeds the mean by this factor
MAX_SHARE = 0.25  # largest fraction of parts kept in float


@dataclass(frozen=True)
class Group:
    """Consecutive nodes, and the noise of quantizing them alone.

    Args:
        nodes: Names of the nodes.
        decibels: Signal-to-noise ratio at the end of the network with only these in int8.
    """

    nodes: tuple[str, ...]
    decibels: float

    @property
    def noise(self) -> float:
        """Power of the noise relative to the signal."""
        return 10 ** (-self.decibels / 10)


def split(nodes: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """``count`` parts of nearly equal length, in order; fewer if there are fewer nodes."""
    count = min(count, len(nodes))
    ends = [len(nodes) * part // count for part in range(count + 1)]
    return [tuple(nodes[a:b]) for a, b in pairwise(ends)]


def measure(
    quantizer: Quantizer, images: Sequence[NDArray], count: int = GROUPS
) -> tuple[list[Group], Callable[[Sequence[str]], float]]:
    """Measure the noise of quantizing the parts of a graph one at a time.

    Args:
        quantizer: The quantizer of the graph.
        images: (1, 3, H, W) each.
        count: Number of parts; the time is proportional to it.

    Returns:
        The parts in order, and a function that measures the ratio for any choice of nodes.
    """
    ends = last_values(quantizer.float_model)
    reference = open_session(quantizer.with_outputs(ends).SerializeToString())
    expected = [run_session(reference, image) for image in images]

    def decibels(nodes: Sequence[str]) -> float:
        quantized = open_session(quantizer.quantized(nodes, ends).SerializeToString())
        pairs = [
            (e, run_session(quantized, image)) for e, image in zip(expected, images, strict=True)
        ]
        # all tensors have equal weight, independent of their magnitude
        ratios = [
            10 ** (-signal_to_noise([e[name] for e, _ in pairs], [f[name] for _, f in pairs]) / 10)
            for name in ends
        ]
        return -10 * log10(sum(ratios) / len(ratios))

    groups = [Group(nodes, decibels(nodes)) for nodes in split(quantizer.nodes, count)]
    return groups, decibels


def sensitive(groups: Sequence[Group]) -> list[Group]:
    """The groups with the most noise, above :data:`NOISE_RATIO` times the mean."""
    mean = sum(group.noise for group in groups) / max(len(groups), 1)
    worst = sorted(
        (group for group in groups if group.noise > NOISE_RATIO * mean),
        key=lambda group: group.noise,
        reverse=True,
    )
    return worst[: max(1, int(MAX_SHARE * len(groups)))]
