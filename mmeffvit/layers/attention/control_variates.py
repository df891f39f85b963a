"""EVA: attention to a window and to summaries of the rest of the map (arXiv:2302.04542)."""

import torch
from torch import Tensor, nn

from .heads import HeadMixer, count_heads


def extents(size: tuple[int, int], sides: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of tiles that cover a map of ``size``."""
    # of positive numbers: ONNX rounds the quotient of a negative one towards zero
    rows, columns = ((n + side - 1) // side for n, side in zip(size, sides, strict=True))
    return rows, columns


def tiles(maps: tuple[Tensor, ...], heads: int, sides: tuple[int, int]) -> tuple[Tensor, ...]:
    """Cut maps into tiles; where they do not divide them, the last row or column is repeated.

    Shape:
        (B, M D, H, W) -> (B, M, T, S, D) each: T tiles of S pixels, in row-major order.
    """
    x = torch.cat(maps, dim=1)
    counts = extents(x.shape[2:], sides)
    for axis, count, side in zip((2, 3), counts, sides, strict=True):
        # an index: a graph for any size would fix whether padding or a slice changes the size
        index = torch.arange(count * side, device=x.device).clamp(max=x.shape[axis] - 1)
        x = x.index_select(axis, index)
    x = x.reshape(*x.shape[:2], counts[0], sides[0], counts[1], sides[1]).permute(0, 2, 4, 3, 5, 1)
    parts = x.flatten(3, 4).flatten(1, 2).split([m.shape[1] for m in maps], dim=3)  # (B, T, S, C)
    return tuple(m.unflatten(3, (heads, -1)).permute(0, 3, 1, 2, 4) for m in parts)


def own_pixels(x: Tensor, sides: tuple[int, int]) -> Tensor:
    """Which pixels of the tiles of a map are not repeated: (T, S), true or false."""
    rows, columns = (
        (torch.arange(count * side, device=x.device) < n).view(count, side)
        for n, count, side in zip(x.shape[2:], extents(x.shape[2:], sides), sides, strict=True)
    )
    both = rows[:, None, :, None] & columns[None, :, None, :]  # (rows, columns, a, b)
    return both.flatten(2).flatten(0, 1)


def untile(x: Tensor, sides: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`tiles` for one map: (B, M, T, S, D) -> (B, M D, H, W)."""
    x = x.unflatten(2, extents(size, sides)).unflatten(4, sides)  # (B, M, rows, columns, a, b, D)
    x = x.permute(0, 1, 6, 2, 4, 3, 5).flatten(5, 6).flatten(3, 4).flatten(1, 2)
    for axis, side in zip((2, 3), size, strict=True):
        x = x.index_select(axis, torch.arange(side, device=x.device))  # a slice, as above
    return x


class ControlVariateAttention(HeadMixer):
    """EVA of arXiv:2302.04542, efficient attention via control variates, as in the authors' code.

    A query of window E attends to the tokens m of E and to summaries of all chunks P_c of the map::

        y = (sum_m(exp(q . k_m) v_m) + sum_c(exp(q . k_c) b_c)) / Z
        b_c = sum_j(xi_j v_j) / sum_j(xi_j),  xi_j = exp(w_c . k_j - |k_j|^2 / 2),  j over P_c
        k_c = norm(W_k mean_j(k_j)),  q_c = norm(W_q mean_j(q_j)),  w_c = (q_c + k_c) / 2 + noise

    Z is the sum of all weights, and every exponent is divided by ``sqrt(D)``. The noise is standard
    normal in train mode and zero in eval mode. Windows and chunks at the end of rows and columns
    are smaller where they do not divide the map.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.
        window: Side of a window, in tokens.
        chunks: Rows and columns of chunks at most: their side grows with the map, so that the cost
            stays linear.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W.

    Raises:
        ValueError: If an argument is not positive, or the channels of the input are not divisible
            into heads.
    """

    def __init__(self, head_channels: int = 4, *, window: int = 7, chunks: int = 7) -> None:
        super().__init__(head_channels)
        if min(window, chunks) < 1:
            raise ValueError(f'window is {window} and chunks is {chunks}; both must be at least 1')
        self.window = window
        self.chunks = chunks
        self.query_summary, self.key_summary = (
            nn.Sequential(nn.Linear(head_channels, head_channels), nn.LayerNorm(head_channels))
            for _ in range(2)
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = tuple(query.shape[2:])
        heads, scale = count_heads(query, value, self.head_channels), self.head_channels**-0.5
        chunk_keys, chunk_values = self.summarize(query, key, value)  # (B, M, 1, chunks, ...)
        sides = (self.window, self.window)
        repeated = ~own_pixels(query, sides)[:, None]  # (T, 1, S)
        query, key, value = tiles((query, key, value), heads, sides)
        near = (query @ key.transpose(3, 4) * scale).masked_fill(repeated, -torch.inf)
        far = query @ chunk_keys.transpose(3, 4) * scale  # (B, M, T, S, chunks)
        weights = torch.cat([near, far], dim=-1).softmax(dim=-1)
        near, far = weights.split((self.window**2, far.shape[-1]), dim=-1)
        return untile(near @ value + far @ chunk_values, sides, size)

    def summarize(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """k_c and b_c of the chunks: (B, M, 1, chunks, D) and (B, M, 1, chunks, C / M)."""
        heads = count_heads(query, value, self.head_channels)
        sides = extents(tuple(query.shape[2:]), (self.chunks, self.chunks))
        own = own_pixels(query, sides)[:, :, None]  # (chunks, S, 1)
        query, key, value = tiles((query, key, value), heads, sides)
        shares = own.to(query.dtype) / own.sum(dim=1, keepdim=True)
        queries = self.query_summary((query * shares).sum(dim=3))
        keys = self.key_summary((key * shares).sum(dim=3))  # (B, M, chunks, D)
        proposal = (queries + keys) / 2
        if self.training:
            proposal = proposal + torch.randn_like(proposal)
        logits = key @ proposal.unsqueeze(4) - key.square().sum(dim=4, keepdim=True) / 2
        logits = (logits * self.head_channels**-0.5).masked_fill(~own, -torch.inf)
        values = logits.softmax(dim=3).transpose(3, 4) @ value  # (B, M, chunks, 1, C / M)
        return keys.unsqueeze(2), values.transpose(2, 3)

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}, window={self.window}, chunks={self.chunks}'
