"""DeiT: a plain vision transformer (arXiv:2012.12877), also with Mobile-Attention (ICML 2024)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from mmeffvit.checkpoints.deit import LAYOUTS
from mmeffvit.layers.attention import MobileAttention, MultiHeadAttention
from mmeffvit.layers.head_projections import HeadProjections
from mmeffvit.layers.regularization import DropPath
from mmeffvit.registry import register_backbone

from .base import Backbone, BackboneOptions, Stage, resolve_arch, resolve_out_indices

STRIDE = 16  # side of a patch
ATTENTIONS = ('multi_head', 'mobile')
MOBILE_ATTENTION = dict(head_channels=4, kernel='sigmoid', normalizer='token', competition=True)

Tokens = tuple[Tensor, tuple[int, int]]  # (B, T + H W, C), T class tokens first, and H and W


@dataclass(frozen=True)
class DeiTArch:
    """Sizes of one variant."""

    channels: int
    heads: int
    depths: tuple[int, ...]  # blocks before each of the four maps

    def __post_init__(self) -> None:
        if len(self.depths) != 4 or min(self.depths) < 1:
            raise ValueError(f'a DeiT has 4 depths, which start at 1; got {self}')
        if min(self.channels, self.heads) < 1 or self.channels % self.heads:
            raise ValueError(f'channels are positive and divisible by the heads; got {self}')


# Table 1 of arXiv:2012.12877; a map after every third of the 12 blocks
# fmt: off
VARIANTS = {  #   channels heads depths
    't': DeiTArch(192,     3,    (3, 3, 3, 3)),
    's': DeiTArch(384,     6,    (3, 3, 3, 3)),
    'b': DeiTArch(768,     12,   (3, 3, 3, 3)),
}
# fmt: on


def resize_positions(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Resize position embeddings bicubically, as the authors do for other image sizes.

    At its own size the embedding is unchanged to the bit.

    Shape:
        (1, T + old rows * old columns, C) -> (1, T + new rows * new columns, C): the first T, of
        class tokens, are unchanged.
    """
    num_tokens = positions.shape[1] - old[0] * old[1]
    cells = positions[:, num_tokens:].transpose(1, 2).unflatten(2, old)
    cells = F.interpolate(cells, new, mode='bicubic').flatten(2).transpose(1, 2)
    return torch.cat((positions[:, :num_tokens], cells), dim=1)


class PatchEmbedding(nn.Module):
    """Patches of 16 x 16 pixels and a class token, with learned positions.

    An image is padded with zeros at the bottom and on the right to whole patches.

    Args:
        channels: C, channels of the output.
        grid: Rows and columns of patches that the positions are built for.
        num_tokens: T, number of class tokens: 0 or 1.

    Shape:
        (B, 3, H, W) -> (B, T + H' W', C) and (H', W'), with H' = ceil(H / 16), W' = ceil(W / 16).
    """

    def __init__(self, channels: int, grid: tuple[int, int], num_tokens: int) -> None:
        super().__init__()
        self.grid = grid
        self.conv = nn.Conv2d(3, channels, STRIDE, STRIDE)
        self.positions = nn.Parameter(torch.empty(1, num_tokens + math.prod(grid), channels))
        token = nn.Parameter(torch.empty(1, num_tokens, channels)) if num_tokens else None
        self.register_parameter('class_token', token)
        for parameter in self.parameters(recurse=False):
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tokens:
        # to multiples of the stride, without negative numbers: ONNX divides these towards zero
        bottom, right = ((s + STRIDE - 1) // STRIDE * STRIDE - s for s in x.shape[2:])
        patches = self.conv(F.pad(x, (0, right, 0, bottom)))
        size = tuple(patches.shape[2:])
        tokens = patches.flatten(2).transpose(1, 2)
        if self.class_token is not None:
            tokens = torch.cat((self.class_token.expand(x.shape[0], -1, -1), tokens), dim=1)
        return tokens + resize_positions(self.positions, self.grid, size), size


class MobileMixer(nn.Module):
    """Mobile-Attention of the cells of a map, with the projections of multi-head attention.

    Args:
        channels: C, channels of the input and of the output.
        mobile: Arguments of :class:`MobileAttention`.

    Shape:
        x (B, H W, C), size (H, W) -> (B, H W, C).
    """

    def __init__(self, channels: int, mobile: Mapping[str, Any]) -> None:
        super().__init__()
        self.qkv = nn.Linear(channels, 3 * channels)
        self.mix = MobileAttention(**mobile)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        maps = self.qkv(x).transpose(1, 2).unflatten(2, size).chunk(3, dim=1)  # (B, C, H, W)
        return self.proj(self.mix(*maps).flatten(2).transpose(1, 2))

    def head_projections(self) -> HeadProjections:
        return HeadProjections(self.mix, ((self.qkv, 3),), self.proj)


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, the hidden one four times as wide.

    Shape:
        (B, N, C) -> (B, N, C).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.expand = nn.Linear(channels, 4 * channels)
        self.project = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(F.gelu(self.expand(x)))


class DeiTBlock(nn.Module):
    """Attention and feed-forward, each residual and with a norm before it.

    Args:
        channels: C, channels of the input and of the output.
        attention: The token mixer: tokens and the size of their map -> tokens.
        drop_prob: Probability of dropping a branch of one sample while training, in [0, 1).

    Shape:
        (B, T + H W, C) and (H, W) -> the same.
    """

    def __init__(self, channels: int, attention: nn.Module, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(channels, eps=1e-6)
        self.attention = attention
        self.feed_forward_norm = nn.LayerNorm(channels, eps=1e-6)
        self.feed_forward = FeedForward(channels)
        self.drop_path = DropPath(drop_prob)

    def forward(self, tokens: Tokens) -> Tokens:
        x, size = tokens
        x = x + self.drop_path(self.attention(self.attention_norm(x), size))
        return x + self.drop_path(self.feed_forward(self.feed_forward_norm(x))), size


class CellsToMap(nn.Module):
    """The cells as a map, without class tokens.

    Shape:
        (B, T + H W, C) and (H, W) -> (B, C, H, W).
    """

    def forward(self, tokens: Tokens) -> Tensor:
        x, (rows, columns) = tokens
        num_tokens = x.shape[1] - rows * columns
        return x[:, num_tokens:].transpose(1, 2).unflatten(2, (rows, columns))


def make_stage(
    arch: DeiTArch, index: int, mobile: Mapping[str, Any] | None, drop_path_rate: float
) -> Stage:
    """A stage of equal blocks.

    The drop probability increases linearly over all blocks of the network.
    """
    first, total = sum(arch.depths[:index]), sum(arch.depths)
    blocks = [
        DeiTBlock(
            arch.channels,
            MultiHeadAttention(arch.channels, arch.heads)
            if mobile is None
            else MobileMixer(arch.channels, mobile),
            drop_path_rate * (first + i) / max(total - 1, 1),
        )
        for i in range(arch.depths[index])
    ]
    return Stage(nn.Identity(), blocks)


def initialize(module: nn.Module) -> None:
    """Initial values of the authors."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


@register_backbone
class DeiT(Backbone):
    """DeiT of arXiv:2012.12877, with four maps at stride 16, each after three more blocks.

    A plain backbone: :class:`mmeffvit.necks.SimpleFeaturePyramid` makes maps at strides 4 to 32 of
    the last one, ``out_indices=(3,)``. Maps are those of the blocks; the norm behind the last block
    is part of the classifier.

    The class token takes part in attention, as in the released weights, and is not returned.
    ``attention='mobile'`` gives DeiT-MobiAtt (ICML 2024), without a class token: Mobile-Attention
    is that of a map.

    Args:
        arch: 't', 's', 'b', or a dict of the fields of :class:`DeiTArch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        attention: 'multi_head' or 'mobile'.
        head_channels: Channels of a head of Mobile-Attention.
        kernel: 'sigmoid' or 'cosine_sigmoid', of Mobile-Attention.
        normalizer: 'token' or 'head', of Mobile-Attention.
        competition: Whether the heads of Mobile-Attention compete.
        resolution: Height and width, in pixels, that the position embeddings are built for, or one
            number for both. They are resized bicubically to the size of an image, and those of
            released weights, for 224, on loading.
        drop_path_rate: Drop probability of the last block, in [0, 1); it is lower in earlier
            blocks.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / 16), ceil(W / 16)).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    layouts = LAYOUTS
    unused = r'^stem\.class_token$'  # Mobile-Attention has none

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 't',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        attention: str = 'multi_head',
        head_channels: int = 4,
        kernel: str = 'sigmoid',
        normalizer: str = 'token',
        competition: bool = True,
        resolution: int | tuple[int, int] = 224,
        drop_path_rate: float = 0.0,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_arch(arch, VARIANTS)
        out_indices = resolve_out_indices(out_indices, len(sizes.depths))
        given = dict(
            head_channels=head_channels,
            kernel=kernel,
            normalizer=normalizer,
            competition=competition,
        )
        mobile = mobile_arguments(attention, given)
        height, width = (resolution,) * 2 if isinstance(resolution, int) else resolution
        if min(height, width) < 1:
            raise ValueError(f'resolution is {(height, width)}; both sides start at 1')
        grid = (-(-height // STRIDE), -(-width // STRIDE))
        super().__init__(
            stem=PatchEmbedding(sizes.channels, grid, num_tokens=int(mobile is None)),
            stages=[
                make_stage(sizes, i, mobile, drop_path_rate) for i in range(out_indices[-1] + 1)
            ],
            channels=(sizes.channels,) * len(sizes.depths),
            strides=(STRIDE,) * len(sizes.depths),
            out_indices=out_indices,
            output_norms=[CellsToMap() for _ in out_indices],
            **options,
        )
        self.apply(initialize)

    def adapt_weights(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Positions of square images, resized to ``resolution`` and without those of lost tokens.

        Of an image of N patches, N or, with a class token, 1 + N.
        """
        name, own = 'stem.positions', self.stem.positions
        positions = state.get(name)
        if positions is None or positions.ndim != 3 or positions.shape == own.shape:
            return {}
        side = math.isqrt(positions.shape[1])
        kept = own.shape[1] - math.prod(self.stem.grid)
        if positions.shape[1] - side**2 not in (0, 1) or positions.shape[1] - side**2 < kept:
            return {}
        resized = resize_positions(positions, (side, side), self.stem.grid)
        return {name: resized[:, resized.shape[1] - own.shape[1] :]}


def mobile_arguments(attention: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments of Mobile-Attention, None for multi-head attention.

    Raises:
        ValueError: If ``attention`` is unknown, or is given arguments that do not apply to it.
    """
    if attention not in ATTENTIONS:
        raise ValueError(f'attention is {attention!r}; choose one of {ATTENTIONS}')
    if attention == 'mobile':
        return given
    changed = [f'{k} is {v!r}' for k, v in given.items() if v != MOBILE_ATTENTION[k]]
    if changed:
        raise ValueError(f"{', '.join(changed)}: this applies to attention='mobile' only")
    return None


@register_backbone
class DeiTMobiAtt(DeiT):
    """DeiT with Mobile-Attention in all blocks (ICML 2024).

    The same as :class:`DeiT` with ``attention='mobile'``, under a name of its own.

    Args:
        arch: As for :class:`DeiT`.
        options: Its other arguments.
    """

    def __init__(self, arch: str | Mapping[str, Any] = 't', **options: Any) -> None:
        super().__init__(arch, **{'attention': 'mobile', **options})
