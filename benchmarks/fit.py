"""The exponent of a cost that grows as a power of the size."""

import math
from collections.abc import Sequence


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the least-squares line through ``log(cost)`` over ``log(size)``.

    Raises:
        ValueError: If there are not two different sizes.
    """
    points = [(math.log(s), math.log(c)) for s, c in zip(sizes, costs, strict=True)]
    if len({x for x, _ in points}) < 2:
        raise ValueError(f'sizes are {list(sizes)}: an exponent needs two different ones')
    middle = [sum(axis) / len(points) for axis in zip(*points, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / spread
