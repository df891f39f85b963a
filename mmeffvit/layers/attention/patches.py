"""Sampling of tokens that attend to each other from a map."""

from torch import Tensor

SAMPLINGS = ('pixel', 'patch')


def check_sampling(sampling: str) -> str:
    """Return ``sampling``.

    Raises:
        ValueError: If it is unknown.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(f'sampling is {sampling!r}; choose one of {SAMPLINGS}')
    return sampling


def to_tokens(x: Tensor, patch_size: int, sampling: str) -> Tensor:
    """Sets of tokens, with P pixels in each of N patches.

    'pixel' takes one pixel of every patch, P sets of N tokens; 'patch' all pixels of one patch, N
    sets of P tokens. In both, tokens are in row-major order.

    Shape:
        (B, C, H, W), sides divisible by ``patch_size`` -> (B P, C, N) or (B N, C, P).
    """
    x = x.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))
    order = (0, 3, 5, 1, 2, 4) if sampling == 'pixel' else (0, 2, 4, 1, 3, 5)
    return x.permute(order).flatten(4).flatten(0, 2)


def from_tokens(x: Tensor, patch_size: int, sampling: str, size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`to_tokens` for a map of ``size``."""
    rows, columns = (side // patch_size for side in size)
    patch, grid = (patch_size, patch_size), (rows, columns)
    if sampling == 'pixel':
        x = x.unflatten(0, (-1, *patch)).unflatten(4, grid).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.unflatten(0, (-1, *grid)).unflatten(4, patch).permute(0, 3, 1, 4, 2, 5)
    return x.flatten(4).flatten(2, 3)  # (B, C, rows, p, columns, p) -> (B, C, H, W)
