"""The interface of quantizers: attempts, from the fastest to the most accurate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mmeffvit.deploy.predictor.sessions import Session


@dataclass(frozen=True)
class Attempt:
    """A quantized model that is not written yet.

    Args:
        settings: What was quantized and how, in words.
        excluded: Names of layers that remain in float.
        quantized: Number of layers in int8.
        open: Loads it, with a number of threads.
        save: Writes it with metadata.
    """

    settings: str
    excluded: tuple[str, ...]
    quantized: int
    open: Callable[[int], Session]
    save: Callable[[Path, Mapping[str, str]], None]


class Route(Protocol):
    """A quantizer of a file, calibrated on images.

    Attributes:
        runtime: Name of the runtime that the quantized files are for.
        nodes: Names of the layers that can be quantized, in topological order.
    """

    runtime: str
    nodes: Sequence[str]

    def attempt(self, excluded: Sequence[str]) -> Attempt:
        """Quantize all layers but these."""

    def attempts(self) -> Iterator[Attempt]:
        """Quantized models; each is tried only if the one before disagrees with the float model."""
