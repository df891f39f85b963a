"""SHViT: single-head vision transformer with memory-efficient macro design (arXiv:2401.16456)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from mmeffvit.models.layers.conv import ConvNorm, ResidualConvNorm
from mmeffvit.registries import register_backbone

from .ablations import (
    NUM_HEADS,
    BottleneckAttention,
    FullMultiHeadAttention,
    PartialMultiHeadAttention,
    no_attention,
)
from .attention import SingleHeadSelfAttention
from .keys import LAYOUTS

STRIDES = (16, 32, 64)
EXPANSION = 2
MERGE_EXPANSION = 4
MakeAttention = Callable[[int, int], nn.Module | None]  # of all and of the attended channels
ATTENTIONS: dict[str, MakeAttention] = {
    'single_head': SingleHeadSelfAttention,
    'partial_multi_head': PartialMultiHeadAttention,
    'multi_head': FullMultiHeadAttention,
    'bottleneck': BottleneckAttention,
    'none': no_attention,
}


@dataclass(frozen=True)
class SHViTArch:
    """Sizes of one variant; every field has one value per stage."""

    channels: tuple[int, ...]
    depths: tuple[int, ...]
    attended: tuple[int, ...]  # channels in attention, 0 for a stage without it

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.depths) == len(self.attended) == 3:
            raise ValueError(f'an SHViT has 3 stages; got {self}')
        if min(self.depths) < 1 or self.channels[0] % 8:
            raise ValueError(f'depths start at 1 and channels[0] is divisible by 8; got {self}')
        pairs = zip(self.attended, self.channels, strict=True)
        if any(not 0 <= attended <= channels for attended, channels in pairs):
            raise ValueError(f'attended must be between 0 and channels; got {self}')


# Sizes of the released models (arXiv:2401.16456)
# fmt: off
VARIANTS = {  #     channels         depths     attended
    's1': SHViTArch((128, 224, 320), (2, 4, 5), (0, 48, 68)),
    's2': SHViTArch((128, 308, 448), (2, 4, 5), (0, 66, 96)),
    's3': SHViTArch((192, 352, 448), (3, 5, 5), (0, 75, 96)),
    's4': SHViTArch((224, 336, 448), (4, 7, 6), (0, 72, 96)),
}
# fmt: on


class FeedForward(nn.Module):
    """Two 1x1 convolutions; the second is zero-initialized.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.expand = ConvNorm(channels, EXPANSION * channels, act=nn.ReLU)
        self.project = ConvNorm(EXPANSION * channels, channels, norm_init=0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.expand(x))


class SHViTBlock(nn.Module):
    """Depth-wise convolution, single-head attention and feed-forward, each residual.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self,
        channels: int,
        attended: int = 0,  # channels in attention; 0 for a block without it
        depthwise_init: float = 0.0,  # initial weight of its batch norm
        dilation: int = 1,  # of the depth-wise convolution
        make_attention: MakeAttention = SingleHeadSelfAttention,
    ) -> None:
        super().__init__()
        self.depthwise = ResidualConvNorm(channels, depthwise_init, dilation)
        self.attention = make_attention(channels, attended) if attended else None
        self.feed_forward = FeedForward(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.depthwise(x)
        if self.attention is not None:
            x = x + self.attention(x)
        return x + self.feed_forward(x)


class SqueezeExcite(nn.Module):
    """Squeeze and excitation (arXiv:1709.01507): scale channels by a function of their global mean.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.expand = nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = x.mean(dim=(2, 3), keepdim=True)  # (B, C, 1, 1)
        return x * self.expand(F.relu(self.reduce(pooled))).sigmoid()


class PatchMerging(nn.Module):
    """Halve the resolution: an inverted bottleneck with squeeze and excitation.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, dilation: int) -> None:
        super().__init__()
        hidden = MERGE_EXPANSION * in_channels
        squeezed = (in_channels + 4) // 8 * 8  # to the nearest multiple of 8
        self.expand = ConvNorm(in_channels, hidden, act=nn.ReLU)
        spatial = dict(stride=stride, dilation=dilation, groups=hidden)
        self.depthwise = ConvNorm(hidden, hidden, 3, act=nn.ReLU, **spatial)
        self.excite = SqueezeExcite(hidden, squeezed)
        self.project = ConvNorm(hidden, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.excite(self.depthwise(self.expand(x))))


class Downsample(nn.Module):
    """Patch merging between two blocks without attention, one before and one after it.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, in_channels: int, out_channels: int, sampling: Sampling) -> None:
        super().__init__()
        dilation = sampling.downsample_dilation
        self.before = SHViTBlock(in_channels, depthwise_init=1.0, dilation=dilation)
        self.merge = PatchMerging(in_channels, out_channels, sampling.stride, dilation)
        self.after = SHViTBlock(out_channels, depthwise_init=1.0, dilation=sampling.dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.merge(self.before(x)))


def make_stem(channels: int) -> nn.Sequential:
    """(B, 3, H, W) -> (B, channels, H/16, W/16), rounded up at each of the four steps."""
    widths = (3, channels // 8, channels // 4, channels // 2, channels)
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [ConvNorm(widths[i], widths[i + 1], 3, stride=2), nn.ReLU()]
    return nn.Sequential(*layers[:-1])  # no activation at the end


def with_ratio(arch: SHViTArch, ratio: float, num_heads: int) -> SHViTArch:
    """Attend to ``ratio`` of the channels, to the nearest multiple of the number of heads."""
    if not 0 < ratio <= 1:
        raise ValueError(f'partial_ratio is {ratio}; choose a number above 0 and at most 1')
    attended = (
        max(round(ratio * channels / num_heads), 1) * num_heads if released else 0
        for channels, released in zip(arch.channels, arch.attended, strict=True)
    )
    return replace(arch, attended=tuple(attended))


def make_stage(
    arch: SHViTArch, index: int, sampling: Sampling, make_attention: MakeAttention
) -> Stage:
    channels, before = arch.channels[index], arch.channels[max(index - 1, 0)]
    downsample = Downsample(before, channels, sampling) if index else nn.Identity()
    options = dict(dilation=sampling.dilation, make_attention=make_attention)
    blocks = [
        SHViTBlock(channels, arch.attended[index], **options) for _ in range(arch.depths[index])
    ]
    return Stage(downsample, blocks)


@register_backbone
class SHViT(Backbone):
    """SHViT of arXiv:2401.16456, with three maps at strides 16, 32 and 64.

    There is no map at stride 8 or 4: :class:`mmeffvit.models.necks.TransposedFPN`, the authors'
    neck, adds them.

    Args:
        arch: 's1', 's2', 's3', 's4', or a dict of the fields of :class:`SHViTArch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        output_stride: 64, 32 or 16; below 64 the last stages are dilated instead of strided, and
            the declared strides change accordingly. The stem has stride 16.
        attention: 'single_head'; 'partial_multi_head' for several heads of 16 query channels each;
            'multi_head' for the layer of ViT on all channels, with a layer norm before it (table 6,
            row 1); 'bottleneck' for a contraction to the channels in attention (figure 6 a); or
            'none' (table 6, row 2). Or a dict of such a name as `type` and of arguments of its
            layer, such as `num_heads`.
        partial_ratio: Part of the channels in attention, in (0, 1], to the nearest multiple of the
            number of heads; None for `attended` of the variant, about 1 / 4.67 of the channels.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / strides[i]), ceil(W / strides[i])).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    attentions = ATTENTIONS
    layouts = LAYOUTS

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 's1',
        *,
        out_indices: Sequence[int] = (0, 1, 2),
        output_stride: int = 64,
        attention: Choice = 'single_head',
        partial_ratio: float | None = None,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_row(arch, VARIANTS)
        make_attention = choose(attention, ATTENTIONS)
        if partial_ratio is not None:
            if make_attention.func in (FullMultiHeadAttention, no_attention):
                raise ValueError(
                    f'partial_ratio is {partial_ratio}: attention={attention!r} does not use it'
                )
            is_divided = make_attention.func is PartialMultiHeadAttention
            num_heads = make_attention.keywords.get('num_heads', NUM_HEADS) if is_divided else 1
            sizes = with_ratio(sizes, partial_ratio, num_heads)
        strides, samplings = resolve_output_stride(output_stride, STRIDES, stem_stride=16)
        super().__init__(
            stem=make_stem(sizes.channels[0]),
            make_stage=lambda i: make_stage(sizes, i, samplings[i], make_attention),
            channels=sizes.channels,
            strides=strides,
            out_indices=out_indices,
            **options,
        )
