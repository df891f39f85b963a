"""Separable self-attention with several latent tokens and with a choice of the sampling."""

from torch import Tensor, nn

from .patches import check_sampling, from_tokens, to_tokens


class LatentSelfAttention(nn.Module):
    """Separable self-attention of arXiv:2206.02680 with several latent tokens.

    ``y = W_o(relu(W_v x) * sum_n(s_n W_k x_n))`` with ``s = mean_l(softmax_n(W_l x))``: each of the
    L rows of W_l is a latent token with context scores of its own, whose context vectors are
    averaged. With one latent and 'pixel' it is :class:`SeparableSelfAttention`, with the same
    weights.

    Args:
        channels: C, channels of the input and of the output.
        num_latents: L, number of latent tokens.
        patch_size: Side of a patch in feature pixels; 1 has one context for the whole map.
        sampling: 'pixel' has one context for the pixels at the same position of all patches,
            'patch' one for the pixels of each patch.

    Shape:
        (B, C, H, W) -> (B, C, H, W), with H and W multiples of ``patch_size``; at a cost linear in
        H W.

    Raises:
        ValueError: If ``num_latents`` is not positive or ``sampling`` is unknown.
    """

    def __init__(
        self,
        channels: int,
        num_latents: int = 1,
        *,
        patch_size: int = 2,
        sampling: str = 'pixel',
    ) -> None:
        super().__init__()
        if num_latents < 1:
            raise ValueError(f'num_latents is {num_latents}; it starts at 1')
        self.sizes = (num_latents, channels, channels)
        self.patch_size = patch_size
        self.sampling = check_sampling(sampling)
        self.qkv = nn.Conv2d(channels, sum(self.sizes), 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = to_tokens(self.qkv(x), self.patch_size, self.sampling)
        query, key, value = tokens.split(self.sizes, dim=1)  # (B', L, T) and (B', C, T)
        scores = query.softmax(dim=-1).mean(dim=1, keepdim=True)  # (B', 1, T)
        context = key @ scores.transpose(1, 2)  # (B', C, 1)
        mixed = value.relu() * context
        return self.out(from_tokens(mixed, self.patch_size, self.sampling, tuple(x.shape[2:])))
