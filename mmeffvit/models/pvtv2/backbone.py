"""PVTv2: pyramid vision transformer with overlapping patches (arXiv:2106.13797)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from mmeffvit.models.backbone import Backbone, BackboneOptions, Stage, drop_probs
from mmeffvit.models.layers.choice import Choice, choose, resolve_row
from mmeffvit.models.layers.conv import ChannelNorm
from mmeffvit.models.layers.head_projections import Units
from mmeffvit.models.layers.regularization import DropPath
from mmeffvit.models.mobile_attention.mixers import MIXERS, Mixer
from mmeffvit.registries import register_backbone

from .attention import SpatialReductionAttention
from .keys import LAYOUTS

STRIDES = (4, 8, 16, 32)
HEADS = (1, 2, 5, 8)
REDUCTIONS = (8, 4, 2, 1)


@dataclass(frozen=True)
class PVTv2Arch:
    """Sizes of one variant; every field has one value per stage."""

    channels: tuple[int, ...]
    depths: tuple[int, ...]
    expansions: tuple[int, ...]  # of the feed-forward layers

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.depths) == len(self.expansions) == 4:
            raise ValueError(f'a PVTv2 has 4 stages; got {self}')
        if min(*self.channels, *self.depths, *self.expansions) < 1:
            raise ValueError(f'channels, depths and expansions are positive; got {self}')
        if any(channels % heads for channels, heads in zip(self.channels, HEADS, strict=True)):
            raise ValueError(f'channels are divisible by {HEADS} heads; got {self}')


# Sizes of the released models (arXiv:2106.13797)
# fmt: off
VARIANTS = {  #     channels             depths         expansions
    'b0': PVTv2Arch((32, 64, 160, 256),  (2, 2, 2, 2),  (8, 8, 4, 4)),
    'b1': PVTv2Arch((64, 128, 320, 512), (2, 2, 2, 2),  (8, 8, 4, 4)),
    'b2': PVTv2Arch((64, 128, 320, 512), (3, 4, 6, 3),  (8, 8, 4, 4)),
    'b3': PVTv2Arch((64, 128, 320, 512), (3, 4, 18, 3), (8, 8, 4, 4)),
    'b4': PVTv2Arch((64, 128, 320, 512), (3, 8, 27, 3), (8, 8, 4, 4)),
    'b5': PVTv2Arch((64, 128, 320, 512), (3, 6, 40, 3), (4, 4, 4, 4)),
}
# fmt: on


class PatchEmbedding(nn.Sequential):
    """Overlapping patches: a strided convolution and a norm.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2)
        self.norm = ChannelNorm(out_channels, eps=1e-5)  # of the authors, 1e-6 elsewhere


class MobileMixer(nn.Module):
    """Mobile-Attention instead of attention with spatial reduction: it covers all tokens.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, num_heads: int, make_mixer: Mixer) -> None:
        super().__init__()
        self.query = nn.Conv2d(channels, channels, 1)
        self.key_value = nn.Conv2d(channels, 2 * channels, 1)
        self.mix = make_mixer(channels, channels, num_heads)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.mix(self.query(x), *self.key_value(x).chunk(2, dim=1)))

    def prunable_units(self) -> Units:
        return Units(((self.query, 1), (self.key_value, 2)), self.proj, self.mix)


class FeedForward(nn.Module):
    """Two 1x1 convolutions around a depth-wise one, which replaces position embeddings.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * channels
        self.expand = nn.Conv2d(channels, hidden, 1)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.project = nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(F.gelu(self.depthwise(self.expand(x))))

    def prunable_units(self) -> Units:
        return Units(((self.expand, 1), (self.depthwise, 1)), self.project)


class PVTv2Block(nn.Module):
    """Attention and feed-forward, each residual and with a norm before it.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self, channels: int, attention: nn.Module, expansion: int, drop_prob: float
    ) -> None:
        super().__init__()
        self.attention_norm = ChannelNorm(channels)
        self.attention = attention
        self.feed_forward_norm = ChannelNorm(channels)
        self.feed_forward = FeedForward(channels, expansion)
        self.drop_path = DropPath(drop_prob)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attention(self.attention_norm(x)))
        return x + self.drop_path(self.feed_forward(self.feed_forward_norm(x)))


class PVTv2Stage(Stage):
    """A :class:`Stage` with a norm at its end, whose output the next stage gets, too."""

    def __init__(self, downsample: nn.Module, blocks: Sequence[nn.Module], channels: int) -> None:
        super().__init__(downsample, blocks)
        self.norm = ChannelNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x))


def make_stage(
    arch: PVTv2Arch, index: int, make_mixer: Mixer | None, drop_path_rate: float
) -> Stage:
    """A stage of equal blocks, with spatial reduction if there is no mixer."""
    channels = arch.channels[index]
    make_attention: Callable[[int, int], nn.Module] = (
        partial(MobileMixer, make_mixer=make_mixer)
        if make_mixer
        else partial(SpatialReductionAttention, reduction=REDUCTIONS[index])
    )
    expansion = arch.expansions[index]
    blocks = [
        PVTv2Block(channels, make_attention(channels, HEADS[index]), expansion, prob)
        for prob in drop_probs(drop_path_rate, arch.depths, index)
    ]
    before = arch.channels[max(index - 1, 0)]
    downsample = PatchEmbedding(before, channels, 3, 2) if index else nn.Identity()
    return PVTv2Stage(downsample, blocks, channels)


def initialize(module: nn.Module) -> None:
    """Initialize as the authors do; their linear layers are 1x1 convolutions here."""
    if not isinstance(module, nn.Conv2d):
        return
    if module.kernel_size == (1, 1):
        nn.init.trunc_normal_(module.weight, std=0.02)
    else:
        fan_out = math.prod(module.kernel_size) * module.out_channels // module.groups
        nn.init.normal_(module.weight, 0, math.sqrt(2 / fan_out))
    if module.bias is not None:  # some attention layers of other papers have none
        nn.init.zeros_(module.bias)


@register_backbone
class PVTv2(Backbone):
    """PVTv2 of arXiv:2106.13797, with four maps at strides 4, 8, 16 and 32.

    Args:
        arch: 'b0' to 'b5', or a dict of the fields of :class:`PVTv2Arch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        mobile_stages: Stages with Mobile-Attention in place of attention with spatial reduction.
        attention: The attention in these stages: 'mobile' or another name in
            :data:`mmeffvit.models.mobile_attention.mixers.MIXERS`, or a dict of such a name as
            `type` and of arguments of its layer, such as `head_channels`: 4 by default in
            Mobile-Attention and its forms; mixers of other papers have as many heads as PVTv2.
        drop_path_rate: Drop probability of the last block, in [0, 1); it is lower in earlier
            blocks.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / strides[i]), ceil(W / strides[i])).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    attentions = MIXERS
    layouts = LAYOUTS
    unused = r'\.attention\.(reduce|norm)\.'  # Mobile-Attention reduces no map

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 'b0',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        mobile_stages: Sequence[int] = (),
        attention: Choice = 'mobile',
        drop_path_rate: float = 0.0,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_row(arch, VARIANTS)
        if not set(mobile_stages) <= set(range(len(STRIDES))):
            raise ValueError(f'mobile_stages is {tuple(mobile_stages)}; choose from 0 to 3')
        make_mixer = choose(attention, MIXERS)
        if attention not in ('mobile', dict(type='mobile')) and not mobile_stages:
            raise ValueError(f'attention is {attention!r}, but mobile_stages is empty')
        super().__init__(
            stem=PatchEmbedding(3, sizes.channels[0], 7, 4),
            make_stage=lambda i: make_stage(
                sizes, i, make_mixer if i in mobile_stages else None, drop_path_rate
            ),
            channels=sizes.channels,
            strides=STRIDES,
            out_indices=out_indices,
            **options,
        )
        self.apply(initialize)


@register_backbone
class PVTv2MobiAtt(PVTv2):
    """PVTv2 with Mobile-Attention (ICML 2024).

    The paper does not say which spatial reductions are replaced, and no single rule gives the
    parameters of its three variants: 3.5 M of b0 result from the last two stages (3.461 M), 21.1 M
    of b2 from all stages (21.062 M), 39.0 M of b3 from neither. These are the defaults; b3 and the
    other variants have Mobile-Attention in all stages.

    Args:
        arch: See :class:`PVTv2`.
        mobile_stages: Stages with Mobile-Attention; None for the default of the variant.
        options: Its other arguments.
    """

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 'b0',
        *,
        mobile_stages: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        if mobile_stages is None:
            is_b0 = resolve_row(arch, VARIANTS) == VARIANTS['b0']
            mobile_stages = (2, 3) if is_b0 else (0, 1, 2, 3)
        super().__init__(arch, mobile_stages=mobile_stages, **options)
