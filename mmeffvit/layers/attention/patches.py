"""Unfolding of a map into the tokens that attend to each other."""

from torch import Tensor


def to_tokens(x: Tensor, patch_size: int) -> Tensor:
    """The pixels of a map by their position in a patch, P, and by patch, N, in row-major order.

    Shape:
        (B, C, H, W), sides divisible by ``patch_size`` -> (B, P, C, N).
    """
    x = x.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))
    return x.permute(0, 3, 5, 1, 2, 4).flatten(4).flatten(1, 2)


def from_tokens(x: Tensor, patch_size: int, size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`to_tokens` for a map of ``size``."""
    rows, columns = (side // patch_size for side in size)
    x = x.unflatten(1, (patch_size, patch_size)).unflatten(4, (rows, columns))
    # (B, C, rows, p, columns, p)
    return x.permute(0, 3, 4, 1, 5, 2).flatten(4).flatten(2, 3)
