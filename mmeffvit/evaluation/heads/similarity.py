"""Cosine similarity between the heads of a layer."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .layers import Heads


@dataclass
class Similarity:
    """Cosine similarities of all pairs of heads, averaged over images.

    Args:
        total: The sum over images, (heads, heads); None before the first one.
        images: The number of images.
    """

    total: Tensor | None = None
    images: int = 0

    @torch.no_grad()
    def add(self, heads: Tensor) -> None:
        """Add a batch of what is compared: (B, heads, ...)."""
        unit = F.normalize(heads.flatten(2).double(), dim=2)
        found = (unit @ unit.transpose(1, 2)).sum(dim=0).cpu()
        self.total = found if self.total is None else self.total + found
        self.images += len(heads)

    def by_head(self) -> list[float | None]:
        """The mean over all other heads, of each head; None for a head without others."""
        mean = self.total / self.images
        others = len(mean) - 1
        if not others:
            return [None]
        return ((mean.sum(dim=1) - mean.diagonal()) / others).tolist()


@contextmanager
def compare_heads(
    layers: Mapping[str, Heads],
) -> Iterator[tuple[dict[str, Similarity], dict[str, Similarity]]]:
    """Compare the heads of layers in every forward pass inside the context.

    Yields:
        Similarities of the outputs and of the attention maps, by layer, in the order of execution;
        a layer that did not run is absent.
    """
    outputs: dict[str, Similarity] = {}
    maps: dict[str, Similarity] = {}
    with ExitStack() as stack:
        for name, heads in layers.items():
            for found, hook in ((outputs, heads.hook), (maps, heads.hook_maps)):

                def visit(x: Tensor, name: str = name, found: dict = found) -> None:
                    found.setdefault(name, Similarity()).add(x)

                handle = hook(visit)
                if handle is not None:
                    stack.callback(handle.remove)
        yield outputs, maps
