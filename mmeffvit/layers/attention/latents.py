"""Separable self-attention with several latent tokens."""

from torch import Tensor, nn

from .self_attention import from_tokens, to_tokens


class LatentSelfAttention(nn.Module):
    """Separable self-attention of arXiv:2206.02680 with several latent tokens.

    ``y = W_o(relu(W_v x) * sum_n(s_n W_k x_n))`` with ``s = mean_l(softmax_n(W_l x))``: each of the
    L rows of W_l is a latent token with context scores of its own. Appendix E does not say how
    their context vectors are combined; here they are averaged. With one latent it is
    :class:`SeparableSelfAttention`, with the same weights.

    Args:
        channels: C, channels of the input and of the output.
        num_latents: L, number of latent tokens.
        patch_size: Side of a patch in feature pixels; 1 has one context for the whole map.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost linear in
        H W.

    Raises:
        ValueError: If ``num_latents`` is not positive.
    """

    def __init__(self, channels: int, num_latents: int = 1, *, patch_size: int = 2) -> None:
        super().__init__()
        if num_latents < 1:
            raise ValueError(f'num_latents is {num_latents}; it must be at least 1')
        self.sizes = (num_latents, channels, channels)
        self.patch_size = patch_size
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = to_tokens(self.qkv(x), self.patch_size)
        query, key, value = tokens.split(self.sizes, dim=2)  # (B, P, L, N) and (B, P, C, N)
        scores = query.softmax(dim=-1).mean(dim=2, keepdim=True)  # (B, P, 1, N)
        context = key @ scores.transpose(2, 3)  # (B, P, C, 1)
        mixed = value.relu() * context
        return self.out(from_tokens(mixed, self.patch_size, tuple(x.shape[2:])))
