"""DeiT: a plain vision transformer (arXiv:2012.12877), also with Mobile-Attention (ICML 2024)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from mmeffvit.models.backbone import Backbone, BackboneOptions, Stage, cells, drop_probs
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.choice import Choice, choose, resolve_row
from mmeffvit.models.layers.grid import Grid, Gridded
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.head_projections import Units
from mmeffvit.models.layers.reading import Locate, Reading
from mmeffvit.models.layers.regularization import DropPath
from mmeffvit.models.mobile_attention.ablations import ControlVariateAttention
from mmeffvit.models.mobile_attention.mixers import MIXERS, Mixer
from mmeffvit.registries import register_backbone

from .attention import MultiHeadAttention
from .keys import LAYOUTS

STRIDE = 16  # side of a patch
MAX_TOKENS = 2  # class and distillation token
OUTPUTS = ('maps', 'class_tokens')
ATTENTIONS: dict[str, Mixer] = {
    'multi_head': lambda channels, _, num_heads: MultiHeadAttention(channels, num_heads),
    **MIXERS,
}

Tokens = tuple[Tensor, tuple[int, int]]  # (B, T + H W, C), T class tokens first, and H and W


@dataclass(frozen=True)
class DeiTArch:
    """Sizes of one variant."""

    channels: int
    heads: int
    depths: tuple[int, ...]  # blocks before each of the four maps

    def __post_init__(self) -> None:
        if len(self.depths) != 4 or min(self.depths) < 1:
            raise ValueError(f'a DeiT has 4 depths of at least 1; got {self}')
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
    image = positions[:, num_tokens:].transpose(1, 2).unflatten(2, old)
    resized = F.interpolate(image, new, mode='bicubic').flatten(2).transpose(1, 2)
    return torch.cat((positions[:, :num_tokens], resized), dim=1)


class PatchEmbedding(Gridded):
    """Patches of 16 x 16 pixels and class tokens, with learned positions.

    An image is padded with zeros at the bottom and on the right to whole patches.

    Args:
        channels: C, channels of the output.
        grid: Rows and columns of patches that the positions are built for.
        num_tokens: T, number of class tokens: 0, 1, or 2 with a distillation token.

    Shape:
        (B, 3, H, W) -> (B, T + H' W', C) and (H', W'), with H' = ceil(H / 16), W' = ceil(W / 16).
    """

    gridded = 'positions'
    num_extra = MAX_TOKENS

    def __init__(self, channels: int, grid: Grid, num_tokens: int) -> None:
        super().__init__(grid)
        self.num_tokens = num_tokens
        self.conv = nn.Conv2d(3, channels, STRIDE, STRIDE)
        self.positions = nn.Parameter(torch.empty(1, num_tokens + math.prod(grid), channels))
        for place, name in enumerate(('class_token', 'distillation_token')):
            token = nn.Parameter(torch.empty(1, 1, channels)) if place < num_tokens else None
            self.register_parameter(name, token)
        for parameter in self.parameters(recurse=False):
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tokens:
        # to multiples of the stride, without negative numbers: ONNX divides these towards zero
        bottom, right = ((s + STRIDE - 1) // STRIDE * STRIDE - s for s in x.shape[2:])
        patches = self.conv(F.pad(x, (0, right, 0, bottom)))
        size = tuple(patches.shape[2:])
        tokens = patches.flatten(2).transpose(1, 2)
        learned = [t for t in (self.class_token, self.distillation_token) if t is not None]
        if learned:
            learned = [token.expand(x.shape[0], -1, -1) for token in learned]
            tokens = torch.cat((*learned, tokens), dim=1)
        return tokens + resize_positions(self.positions, self.grid, size), size

    def resized(self, tensor: Tensor, grid: Grid) -> Tensor:
        """Also without the positions of class tokens that this module lacks."""
        given = tensor.shape[1] - math.prod(grid) if tensor.ndim == 3 else -1
        is_own = (grid, given) == (self.grid, self.num_tokens)
        if is_own or not self.num_tokens <= given <= MAX_TOKENS:
            return tensor
        resized = resize_positions(tensor, grid, self.grid)
        return torch.cat((resized[:, : self.num_tokens], resized[:, given:]), dim=1)


class TokenMixer(Attention):
    """A mixer of :data:`MIXERS` with the projections of multi-head attention.

    Class tokens are tokens like all others: the mixer then gets a map of T + H W rows and one
    column.

    Shape:
        x (B, T + H W, C), size (H, W) -> (B, T + H W, C).
    """

    def __init__(self, channels: int, mixer: Attention, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.qkv = nn.Linear(channels, 3 * channels)
        self.mix = mixer
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        return self.proj(self.mix(*self.maps(x, size)).flatten(2).transpose(1, 2))

    def maps(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        """Queries, keys and values as the mixer gets them, each (B, C, H, W) or (B, C, N, 1)."""
        tokens = self.qkv(x).transpose(1, 2)
        maps = tokens.unsqueeze(3) if self.num_tokens else tokens.unflatten(2, size)
        return maps.chunk(3, dim=1)

    def prunable_units(self) -> Units:
        return Units(((self.qkv, 3),), self.proj, self.mix)

    @property
    def is_readable(self) -> bool:
        return self.mix.is_readable

    def read_attention(self, inputs: tuple[Any, ...], locate: Locate) -> Reading:
        """Read the maps of the mixer without class tokens."""
        x, size = inputs
        maps, first = self.maps(x, size), self.num_tokens
        if not first:
            return self.mix.read_attention(maps, locate)
        place = None if locate is None else lambda _: first + locate(size)
        reading = self.mix.read_attention(maps, place)

        def of_cells(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: x[..., first:, 0].unflatten(-1, size) for name, x in arrays.items()}

        return replace(reading, maps=of_cells(reading.maps), arrays=of_cells(reading.arrays))

    def head_outputs(self) -> HeadOutputs | None:
        return self.mix.head_outputs()


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

    def prunable_units(self) -> Units:
        return Units(((self.expand, 1),), self.project)


class DeiTBlock(nn.Module):
    """Attention and feed-forward, each residual and with a norm before it.

    Shape:
        (B, T + H W, C) and (H, W) -> the same.
    """

    def __init__(self, channels: int, attention: nn.Module, drop_prob: float) -> None:
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
    """Return the cells as a map, without class tokens.

    Shape:
        (B, T + H W, C) and (H, W) -> (B, C, H, W).
    """

    def forward(self, tokens: Tokens) -> Tensor:
        x, (rows, columns) = tokens
        num_tokens = x.shape[1] - rows * columns
        return x[:, num_tokens:].transpose(1, 2).unflatten(2, (rows, columns))


class ClassTokens(nn.Module):
    """The class tokens, for a classifier.

    Shape:
        (B, T + H W, C) and (H, W) -> (B, T, C).
    """

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens

    def forward(self, tokens: Tokens) -> Tensor:
        return tokens[0][:, : self.num_tokens]


def make_attention(arch: DeiTArch, make_layer: Mixer, num_tokens: int) -> Attention:
    """The attention of a block; windows need a map, without class tokens."""
    layer = make_layer(arch.channels, arch.channels, arch.heads)
    if isinstance(layer, MultiHeadAttention):
        return layer
    if isinstance(layer, ControlVariateAttention) and num_tokens:
        raise ValueError("attention is 'eva' with windows on a map: choose class_tokens=0")
    return TokenMixer(arch.channels, layer, num_tokens)


def make_stage(
    arch: DeiTArch, index: int, attention: Callable[[], nn.Module], drop_path_rate: float
) -> Stage:
    """A stage of equal blocks."""
    probs = drop_probs(drop_path_rate, arch.depths, index)
    return Stage(nn.Identity(), [DeiTBlock(arch.channels, attention(), prob) for prob in probs])


def initialize(module: nn.Module) -> None:
    """Initialize as the authors do."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


@register_backbone
class DeiT(Backbone):
    """DeiT of arXiv:2012.12877, with four maps at stride 16, each after three more blocks.

    A plain backbone: :class:`mmeffvit.models.necks.SimpleFeaturePyramid` makes maps at strides 4 to
    32 of the last one, ``out_indices=(3,)``. Maps are block outputs; the norm behind the last block
    is part of the classifier.

    Class tokens pass through every block, which released weights expect. Maps consist of the cells
    only; ``output='class_tokens'`` returns the tokens to a classifier.

    ``attention='mobile'`` gives DeiT-MobiAtt (ICML 2024), and other names the rows of its table 2.

    Args:
        arch: 't', 's', 'b', or a dict of the fields of :class:`DeiTArch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        attention: 'multi_head', 'mobile' or another name in
            :data:`mmeffvit.models.mobile_attention.mixers.MIXERS`, or a dict of such a name as
            `type` and of arguments of its layer, such as `head_channels`: 4 by default in
            Mobile-Attention and its forms; mixers of other papers have as many heads as DeiT.
        class_tokens: Number of class tokens: 0, 1, or 2 for the distilled form.
        output: 'maps', or 'class_tokens' for tensors of (B, class_tokens, channels).
        resolution: Height and width, in pixels, that the position embeddings are built for, or one
            number for both. They are resized bicubically to the size of an image, and
            embeddings of released weights, for 224, on loading.
        drop_path_rate: Drop probability of the last block, in [0, 1); it is lower in earlier
            blocks.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / 16), ceil(W / 16)).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    attentions = ATTENTIONS
    layouts = LAYOUTS

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 't',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        attention: Choice = 'multi_head',
        class_tokens: int = 1,
        output: str = 'maps',
        resolution: int | tuple[int, int] = 224,
        drop_path_rate: float = 0.0,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_row(arch, VARIANTS)
        check_output(class_tokens, output)
        grid = cells(resolution, STRIDE)
        build = partial(make_attention, sizes, choose(attention, ATTENTIONS), class_tokens)
        super().__init__(
            stem=PatchEmbedding(sizes.channels, grid, class_tokens),
            make_stage=lambda i: make_stage(sizes, i, build, drop_path_rate),
            channels=(sizes.channels,) * len(sizes.depths),
            strides=(STRIDE,) * len(sizes.depths),
            out_indices=out_indices,
            outputs=lambda _: CellsToMap() if output == 'maps' else ClassTokens(class_tokens),
            **options,
        )
        lacking = ('class', 'distillation')[class_tokens:]
        if lacking:
            self.unused = rf'^stem\.({"|".join(lacking)})_token$'
        self.apply(initialize)


def check_output(class_tokens: int, output: str) -> None:
    """Check what a DeiT returns."""
    if class_tokens not in range(MAX_TOKENS + 1):
        raise ValueError(f'class_tokens is {class_tokens}; choose 0, 1 or 2')
    if output not in OUTPUTS:
        raise ValueError(f'output is {output!r}; choose one of {OUTPUTS}')
    if output == 'class_tokens' and not class_tokens:
        raise ValueError("output is 'class_tokens', but class_tokens is 0")


@register_backbone
class DeiTMobiAtt(DeiT):
    """DeiT with Mobile-Attention in all blocks (ICML 2024).

    The same as :class:`DeiT` with ``attention='mobile'``, under a name of its own.
    """

    def __init__(self, arch: str | Mapping[str, Any] = 't', **options: Any) -> None:
        super().__init__(arch, **{'attention': 'mobile', **options})
