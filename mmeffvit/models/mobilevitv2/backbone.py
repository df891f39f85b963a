"""MobileViTv2: mobile vision transformers with separable self-attention (arXiv:2206.02680)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from mmeffvit.models.backbone import (
    Backbone,
    BackboneOptions,
    Sampling,
    Stage,
    resolve_output_stride,
)
from mmeffvit.models.layers.choice import Choice, choose, resolve_row
from mmeffvit.models.layers.conv import ConvNorm
from mmeffvit.models.layers.folding import absorb_group_norm
from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.registries import register_backbone

from .ablations import LatentSelfAttention, LinformerAttention, SampledSelfAttention
from .attention import KeylessSeparableSelfAttention, SeparableSelfAttention
from .keys import LAYOUTS

STRIDES = (2, 4, 8, 16, 32)
ODD_SIZES = ('official', 'restore')
EXPANSION = 2
PATCH_SIZE = 2
WIDEST = 10.0  # multiple of the base width
ATTENTIONS = {
    'separable': SeparableSelfAttention,
    'latents': LatentSelfAttention,
    'sampled': SampledSelfAttention,
    'self': SelfAttention,
    'linformer': LinformerAttention,
}
TRAINING_SIDE = 256  # pixels: Linformer's projections are built for the patches of such an image


def round_to(value: float, divisor: int) -> int:
    """The nearest multiple of ``divisor`` that is at least nine tenths of ``value``."""
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * value else rounded + divisor


@dataclass(frozen=True)
class MobileViTv2Arch:
    """Sizes of one variant: two convolutional stages, followed by three with attention.

    ``attention_channels`` and ``attention_depths`` have one value for each of the last three
    stages.
    """

    stem_channels: int
    channels: tuple[int, ...]
    attention_channels: tuple[int, ...]
    attention_depths: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = (len(self.channels), len(self.attention_channels), len(self.attention_depths))
        if lengths != (5, 3, 3):
            raise ValueError(f'a MobileViTv2 has 5 stages, the last 3 with attention; got {self}')
        widths = (self.stem_channels, *self.channels, *self.attention_channels)
        if min(*widths, *self.attention_depths) < 1:
            raise ValueError(f'channels and depths must be at least 1; got {self}')

    @classmethod
    def of_width(cls, width: float) -> 'MobileViTv2Arch':
        """The sizes at a multiple of the base width, rounded as the official code does."""
        if not 0 < width <= WIDEST:  # --cfg-options reads 050 as 50
            raise ValueError(
                f'arch is {width!r}; a multiple of the base width must be above 0 and at most '
                f'{WIDEST}, such as 0.5 for the variant 050'
            )
        return cls(
            stem_channels=round_to(min(max(32 * width, 16), 64), 8),
            channels=(
                round_to(64 * width, 16),
                *(round_to(base * width, 8) for base in (128, 256, 384, 512)),
            ),
            attention_channels=tuple(round_to(base * width, 8) for base in (128, 192, 256)),
            attention_depths=(2, 4, 3),
        )


# Widths of the released models (arXiv:2206.02680), in percent
VARIANTS = {
    width: MobileViTv2Arch.of_width(int(width) / 100)
    for width in ('050', '075', '100', '125', '150', '175', '200')
}


class InvertedResidual(nn.Module):
    """The inverted bottleneck of MobileNetV2 (arXiv:1801.04381).

    With stride 1 and equal channels it is residual.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        hidden = round_to(EXPANSION * in_channels, 8)
        spatial = dict(stride=stride, dilation=dilation, groups=hidden)
        self.expand = ConvNorm(in_channels, hidden, act=nn.SiLU)
        self.depthwise = ConvNorm(hidden, hidden, 3, act=nn.SiLU, **spatial)
        self.project = ConvNorm(hidden, out_channels)
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        out = self.project(self.depthwise(self.expand(x)))
        return x + out if self.residual else out


class SeparableEncoder(nn.Module):
    """Pre-norm attention and feed-forward, each residual.

    The norms are over all channels and positions of a sample together (one group).

    Shape:
        (B, C, H, W) -> (B, C, H, W), with even H and W.
    """

    def __init__(self, channels: int, attention: nn.Module) -> None:
        super().__init__()
        self.attention_norm = nn.GroupNorm(1, channels)
        self.attention = attention
        self.feed_forward_norm = nn.GroupNorm(1, channels)
        self.feed_forward = nn.Sequential(
            nn.Conv2d(channels, EXPANSION * channels, 1),
            nn.SiLU(),
            nn.Conv2d(EXPANSION * channels, channels, 1),
        )

    def folded(self) -> 'SeparableEncoder':
        self.attention_norm = absorb_group_norm(self.attention_norm, self.attention.qkv)
        if isinstance(self.attention, SeparableSelfAttention):
            self.attention = KeylessSeparableSelfAttention(self.attention)
        self.feed_forward_norm = absorb_group_norm(self.feed_forward_norm, self.feed_forward[0])
        return self

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class SampledEncoder(SeparableEncoder):
    """A :class:`SeparableEncoder` of sampled tokens; the others pass unchanged."""

    attention: SampledSelfAttention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention.replace_sample(x, super().forward)


def make_encoder(channels: int, attention: nn.Module) -> SeparableEncoder:
    is_sampled = isinstance(attention, SampledSelfAttention)
    return (SampledEncoder if is_sampled else SeparableEncoder)(channels, attention)


class MobileViTv2Block(nn.Module):
    """Local and global representation, without a skip connection or a fusion convolution.

    Shape:
        (B, C, H, W) -> (B, C, H', W'), H' and W' the next even numbers, or H and W restored.
    """

    def __init__(
        self,
        channels: int,
        attention_channels: int,  # of the encoders
        depth: int,
        dilation: int,
        restore_size: bool,  # resize maps of odd size back
        make_attention: Callable[[int], nn.Module],
    ) -> None:
        super().__init__()
        spatial = dict(dilation=dilation, groups=channels)
        self.depthwise = ConvNorm(channels, channels, 3, act=nn.SiLU, **spatial)
        self.expand = nn.Conv2d(channels, attention_channels, 1, bias=False)
        self.encoders = nn.Sequential(
            *(
                make_encoder(attention_channels, make_attention(attention_channels))
                for _ in range(depth)
            )
        )
        self.norm = nn.GroupNorm(1, attention_channels)
        self.project = ConvNorm(attention_channels, channels)
        self.restore_size = restore_size

    def folded(self) -> 'MobileViTv2Block':
        self.norm = absorb_group_norm(self.norm, self.project)
        return self

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[2:]
        # in a graph for any size, every map is resized
        is_even = all(isinstance(side, int) and side % PATCH_SIZE == 0 for side in size)
        if not is_even:
            even = [(side + 1) // PATCH_SIZE * PATCH_SIZE for side in size]
            x = F.interpolate(x, even, mode='bilinear', align_corners=True)
        x = self.encoders(self.expand(self.depthwise(x)))
        x = self.project(self.norm(x))
        if not is_even and self.restore_size:
            x = F.interpolate(x, size, mode='bilinear', align_corners=True)
        return x


def attention_for(attention: Choice, stride: int) -> Callable[[int], nn.Module]:
    """The factory of the attention of a block at ``stride``, called with its channels."""
    chosen = choose(attention, ATTENTIONS)
    own = dict(patch_size=PATCH_SIZE)
    side = chosen.keywords.get('patch_size', PATCH_SIZE)
    if side not in (1, PATCH_SIZE):  # maps have even sides
        raise ValueError(f'patch_size is {side!r}; choose 1 or {PATCH_SIZE}')
    if chosen.func is LinformerAttention:
        side = -(-TRAINING_SIDE // (PATCH_SIZE * stride))
        own['grid'] = (side, side)
    return partial(chosen.func, **own | chosen.keywords)


def make_stage(
    arch: MobileViTv2Arch,
    index: int,
    stride: int,
    sampling: Sampling,
    restore_size: bool,
    attention: Choice,
) -> Stage:
    """A stage: an inverted residual for downsampling, followed by the blocks."""
    make_attention = attention_for(attention, stride)  # also checks it
    channels = arch.channels[index]
    in_channels = arch.channels[index - 1] if index else arch.stem_channels
    downsample = InvertedResidual(
        in_channels, channels, sampling.stride, sampling.downsample_dilation
    )
    if index < 2:
        return Stage(downsample, [InvertedResidual(channels, channels) for _ in range(index)])
    block = MobileViTv2Block(
        channels,
        arch.attention_channels[index - 2],
        arch.attention_depths[index - 2],
        sampling.dilation,
        restore_size,
        make_attention,
    )
    return Stage(downsample, [block])


@register_backbone
class MobileViTv2(Backbone):
    """MobileViTv2 of arXiv:2206.02680, with five maps at strides 2, 4, 8, 16 and 32.

    Attention works on patches of 2 x 2, so a block resizes a map of odd height or width to the next
    even size. The official code never resizes it back, which shifts the grid of the later maps
    relative to the image by up to one cell: 224 x 224 gives 8 x 8 at stride 32, not 7 x 7. Maps of
    images padded to a multiple of 64 are never resized; otherwise use ``odd_size='restore'``, or a
    neck that resizes to the size of the finer map, such as ``FPN``.

    Inputs are RGB in [0, 1], without mean and standard deviation.

    Args:
        arch: '050', '075', '100', '125', '150', '175', '200', a multiple of the base width as a
            number, or a dict of the fields of :class:`MobileViTv2Arch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        output_stride: 32, 16 or 8; below 32 the last stages are dilated instead of strided, and the
            declared strides change accordingly.
        odd_size: 'official' keeps odd maps enlarged; 'restore' resizes them back after each block,
            so that every map has the declared size.
        attention: 'separable', 'latents', 'sampled', 'self' or 'linformer', or a dict of such a
            name as `type` and of arguments of its layer, such as `num_latents` or `pixels`.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / strides[i]), ceil(W / strides[i]));
        with 'official', each side is rounded up to an even number from the third stage on, before
        later stages halve it.

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    attentions = ATTENTIONS
    layouts = LAYOUTS
    input_mean = (0.0, 0.0, 0.0)
    input_std = (255.0, 255.0, 255.0)

    def __init__(
        self,
        arch: str | float | Mapping[str, Any] = '100',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3, 4),
        output_stride: int = 32,
        odd_size: str = 'official',
        attention: Choice = 'separable',
        **options: Unpack[BackboneOptions],
    ) -> None:
        if isinstance(arch, int | float):
            sizes = MobileViTv2Arch.of_width(arch)
        else:
            sizes = resolve_row(arch, VARIANTS)
        if odd_size not in ODD_SIZES:
            raise ValueError(f'odd_size is {odd_size!r}; choose one of {ODD_SIZES}')
        strides, samplings = resolve_output_stride(output_stride, STRIDES, stem_stride=2)
        restore_size = odd_size == 'restore'
        super().__init__(
            stem=ConvNorm(3, sizes.stem_channels, 3, stride=2, act=nn.SiLU),
            make_stage=lambda i: make_stage(
                sizes, i, strides[i], samplings[i], restore_size, attention
            ),
            channels=sizes.channels,
            strides=strides,
            out_indices=out_indices,
            **options,
        )
        if not restore_size:
            self.size_divisor = PATCH_SIZE * output_stride
