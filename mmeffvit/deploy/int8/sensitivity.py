"""Measuring which layers of a network are most sensitive to int8."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import signal_to_noise

GROUPS = 16  # parts that are measured one at a time
IMAGES = 4  # for each measurement
NOISE_RATIO = 2.0  # a part is sensitive if its noise exceeds the mean by this factor
MAX_SHARE = 0.25  # largest fraction of parts kept in float


@dataclass(frozen=True)
class Group:
    """Consecutive layers, and the noise of quantizing them."""

    nodes: tuple[str, ...]
    noise: float  # power of the noise at the end of the network, relative to the signal


def measure(
    nodes: Sequence[str], noise: Callable[[Sequence[str]], float], count: int = GROUPS
) -> list[Group]:
    """Measure the noise of ``count`` parts of a network, of nearly equal length, one at a time.

    The ``nodes`` are the names of its layers in topological order; ``noise`` measures some of them.
    """
    count = min(count, len(nodes))
    ends = [len(nodes) * part // count for part in range(count + 1)]
    parts = [tuple(nodes[start:end]) for start, end in pairwise(ends)]
    return [Group(part, noise(part)) for part in parts]


def exclusions(groups: Sequence[Group]) -> Iterator[list[str]]:
    """Layers to keep in float: of the noisiest group, then of two groups, of four and so on.

    Only groups above :data:`NOISE_RATIO` times the mean are kept, at most :data:`MAX_SHARE`.
    """
    mean = sum(group.noise for group in groups) / max(len(groups), 1)
    noisy = (group for group in groups if group.noise > NOISE_RATIO * mean)
    worst = nlargest(max(1, int(MAX_SHARE * len(groups))), noisy, key=lambda group: group.noise)
    count = 1
    while count < 2 * len(worst):
        yield [name for group in worst[:count] for name in group.nodes]
        count *= 2


def mean_noise(
    expected: Sequence[Mapping[str, NDArray]], found: Sequence[Mapping[str, NDArray]]
) -> float:
    """Mean noise power of tensors relative to their signal: their magnitude is not counted."""
    ratios = [
        10 ** (-signal_to_noise([e[name] for e in expected], [f[name] for f in found]) / 10)
        for name in expected[0]
    ]
    return sum(ratios) / len(ratios)
