"""EfficientFormerV2 (arXiv:2212.08059), also with Mobile-Attention (ICML 2024)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from typing_extensions import Unpack

from mmeffvit.models.backbone import (
    Backbone,
    BackboneOptions,
    Sampling,
    Stage,
    cells,
    drop_probs,
    resolve_output_stride,
)
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.choice import Choice, choose, resolve_row
from mmeffvit.models.layers.conv import ConvNorm, ConvStem
from mmeffvit.models.layers.head_projections import Units
from mmeffvit.models.layers.regularization import DropPath, LayerScale
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.models.mobile_attention.mixers import MIXERS, Mixer
from mmeffvit.registries import register_backbone

from .attention import DownsamplingAttention, LocalGlobalAttention, TalkingHeadsAttention
from .keys import LAYOUTS

STRIDES = (4, 8, 16, 32)
NUM_HEADS = 8
# queries and keys, values: channels of all heads together
BLOCK_WIDTHS = (256, 1024)
DOWNSAMPLING_WIDTHS = (128, 512)


@dataclass(frozen=True)
class EfficientFormerV2Arch:
    """Sizes of one variant, per stage; the last two fields are for the last two stages only."""

    channels: tuple[int, ...]
    depths: tuple[int, ...]
    attended: tuple[int, ...]  # blocks with attention, the last ones of the stage
    narrow: tuple[tuple[int, int], ...]  # range of blocks with expansion 3 instead of 4

    def __post_init__(self) -> None:
        lengths = [len(f) for f in (self.channels, self.depths, self.attended, self.narrow)]
        if lengths != [4, 4, 2, 2]:
            raise ValueError(f'an EfficientFormerV2 has 4 stages, 2 with attention; got {self}')
        if min(self.channels) < 2 or min(self.depths) < 1:
            raise ValueError(f'channels must be at least 2 and depths at least 1; got {self}')
        pairs = zip(self.attended, self.depths[2:], strict=True)
        if any(not 0 <= attended <= depth for attended, depth in pairs):
            raise ValueError(f'attended must be between 0 and the depth of its stage; got {self}')


# Sizes of the released models
# fmt: off
VARIANTS = {  #               channels            depths         attended narrow
    's0': EfficientFormerV2Arch((32, 48, 96, 176),  (2, 2, 6, 4),   (2, 2), ((1, 4), (1, 3))),
    's1': EfficientFormerV2Arch((32, 48, 120, 224), (3, 3, 9, 6),   (2, 2), ((2, 6), (2, 4))),
    's2': EfficientFormerV2Arch((32, 64, 144, 288), (4, 4, 12, 8),  (4, 4), ((2, 8), (2, 6))),
    'l':  EfficientFormerV2Arch((40, 80, 192, 384), (5, 5, 15, 10), (6, 6), ((4, 11), (3, 7))),
}
# fmt: on


def talking_heads(
    resolution: int | tuple[int, int], resize_matrix: bool, key_stride: int, **options: Any
) -> Mixer:
    """Talking-heads attention with biases for the keys at a stride of images of ``resolution``."""
    table_size = cells(resolution, key_stride)

    def make(channels: int, value_channels: int, num_heads: int) -> Attention:
        return TalkingHeadsAttention(num_heads, table_size, resize_matrix=resize_matrix, **options)

    return make


def check_output_stride(output_stride: int, resize_matrix: bool, tables: Sequence[str]) -> None:
    """Check that position biases, of the arguments ``tables``, allow a dilated network."""
    if output_stride < 32 and tables and resize_matrix:
        raise ValueError(
            f'output_stride is {output_stride} and resize_matrix is True: matrices of biases '
            'keep no positions on a map of twice the size; choose output_stride=32 or '
            'resize_matrix=False'
        )
    if output_stride < 16 and tables:
        without = ' and '.join(f"{name}='mobile'" for name in tables)
        raise ValueError(
            f'output_stride is {output_stride}: position biases are for strides 32 and 16; '
            f'choose one of these, or {without}'
        )


class FeedForward(nn.Module):
    """Two 1x1 convolutions around a depth-wise one, each with bias and norm.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, expansion: int, dilation: int = 1) -> None:
        super().__init__()
        hidden = expansion * channels
        spatial = dict(dilation=dilation, groups=hidden, bias=True)
        self.expand = ConvNorm(channels, hidden, bias=True, act=nn.GELU)
        self.depthwise = ConvNorm(hidden, hidden, 3, act=nn.GELU, **spatial)
        self.project = ConvNorm(hidden, channels, bias=True)
        # as in the official code, which uses torch's default for all other convolutions
        for conv in (self.expand.conv, self.project.conv):
            nn.init.trunc_normal_(conv.weight, std=0.02)
            nn.init.zeros_(conv.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.depthwise(self.expand(x)))

    def prunable_units(self) -> Units:
        return Units(((self.expand, 1), (self.depthwise, 1)), self.project)


class EfficientFormerV2Block(nn.Module):
    """Optional attention, and feed-forward, each residual.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self,
        channels: int,
        expansion: int,
        drop_prob: float,
        attention: nn.Module | None,
        dilation: int,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_scale = LayerScale(channels) if attention is not None else None
        self.feed_forward = FeedForward(channels, expansion, dilation)
        self.feed_forward_scale = LayerScale(channels)
        self.drop_path = DropPath(drop_prob)

    def folded(self) -> 'EfficientFormerV2Block':
        self.feed_forward_scale = self.feed_forward_scale.fold_into(self.feed_forward.project)
        if self.attention is not None:
            self.attention_scale = self.attention_scale.fold_into(self.attention.project)
        return self

    def forward(self, x: Tensor) -> Tensor:
        if self.attention is not None:
            x = self.attention_scale(x, self.drop_path(self.attention(x)))
        return self.feed_forward_scale(x, self.drop_path(self.feed_forward(x)))


class DualDownsample(nn.Module):
    """Halve the resolution with a convolution plus attention.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(
        self, in_channels: int, out_channels: int, make_mixer: Mixer, sampling: Sampling
    ) -> None:
        super().__init__()
        spatial = dict(stride=sampling.stride, dilation=sampling.downsample_dilation)
        self.local = ConvNorm(in_channels, out_channels, 3, bias=True, **spatial)
        mixer = make_mixer(*DOWNSAMPLING_WIDTHS, NUM_HEADS)
        # Mobile-Attention's heads compete at every token: keys must be on the grid of the queries
        spatial['key_stride'] = 1 if isinstance(mixer, TalkingHeadsAttention) else sampling.stride
        widths = (in_channels, out_channels, *DOWNSAMPLING_WIDTHS)
        self.attention = DownsamplingAttention(*widths, mixer, **spatial)

    def forward(self, x: Tensor) -> Tensor:
        return self.local(x) + self.attention(x)


def make_downsample(
    arch: EfficientFormerV2Arch, index: int, make_mixer: Mixer, sampling: Sampling
) -> nn.Module:
    if index == 0:
        return nn.Identity()
    in_channels, out_channels = arch.channels[index - 1 : index + 1]
    if index == 3:
        return DualDownsample(in_channels, out_channels, make_mixer, sampling)
    spatial = dict(stride=sampling.stride, dilation=sampling.downsample_dilation)
    return ConvNorm(in_channels, out_channels, 3, bias=True, **spatial)


def make_stage(
    arch: EfficientFormerV2Arch,
    index: int,
    make_mixer: Mixer,
    make_downsampling_mixer: Mixer,
    sampling: Sampling,
    drop_path_rate: float,
) -> Stage:
    """A stage of blocks without attention, followed by blocks with attention."""
    channels, depth = arch.channels[index], arch.depths[index]
    narrow = range(*arch.narrow[index - 2]) if index >= 2 else ()
    first_attended = depth - arch.attended[index - 2] if index >= 2 else depth
    stride, dilation = 2 if index == 2 else 1, sampling.dilation

    def make_attention() -> nn.Module:
        mixer = make_mixer(*BLOCK_WIDTHS, NUM_HEADS)
        return LocalGlobalAttention(channels, *BLOCK_WIDTHS, mixer, stride, dilation)

    blocks = []
    for i, drop_prob in enumerate(drop_probs(drop_path_rate, arch.depths, index)):
        expansion = 3 if i in narrow else 4
        attention = make_attention() if i >= first_attended else None
        blocks.append(EfficientFormerV2Block(channels, expansion, drop_prob, attention, dilation))
    return Stage(make_downsample(arch, index, make_downsampling_mixer, sampling), blocks)


@register_backbone
class EfficientFormerV2(Backbone):
    """EfficientFormerV2 of arXiv:2212.08059, with four maps at strides 4, 8, 16 and 32.

    Images may have any height and width: the position bias tables, built for the size of the
    pretraining, are resized in two dimensions to the size of the image, see
    :class:`mmeffvit.models.efficientformerv2.position_bias.PositionBias`.

    ``attention='mobile'`` gives EfficientFormerV2-MobiAtt (ICML 2024): the blocks use
    :class:`mmeffvit.models.mobile_attention.attention.MobileAttention`; projections and everything
    else are the same.

    Args:
        arch: 's0', 's1', 's2', 'l', or a dict of the fields of :class:`EfficientFormerV2Arch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        attention: 'local_global', 'mobile' or another name in
            :data:`mmeffvit.models.mobile_attention.mixers.MIXERS`, in the blocks; or a dict of such
            a name as `type` and of arguments of its layer, such as `head_channels`, a divisor of
            256: 4 by default in Mobile-Attention and its forms; 32 in mixers of other papers.
        downsampling: 'local_global', 'mobile' or such a dict, in the downsampling from the third to
            the fourth stage; the paper replaces attention in blocks, so this keeps its own by
            default.
        resolution: Height and width, in pixels, that the bias tables are built for, or one number
            for both. The tables of released weights, for 224, are resized on loading.
        resize_matrix: For images of another size than `resolution`, resize matrices of biases as
            the authors' detectors and segmentors do, and not the tables. For their weights.
        output_stride: 32, 16 or 8; below 32 the last stages are dilated instead of strided, and the
            declared strides change accordingly. 16 resizes bias tables to the finer map; 8 is only
            for Mobile-Attention in blocks and downsampling, which has no position biases.
        drop_path_rate: Drop probability of the last block, in [0, 1); it is lower in earlier
            blocks.
        options: `frozen_stages`, `norm_eval`, `with_cp`, `init_cfg`; see :class:`Backbone`.

    Shape:
        (B, 3, H, W) -> a tuple of (B, channels[i], ceil(H / strides[i]), ceil(W / strides[i])).

    Raises:
        ValueError: If an argument is not one of its choices.
    """

    variants = VARIANTS
    attentions = ('local_global', *MIXERS)
    layouts = LAYOUTS
    # replaced by Mobile-Attention: bias tables and head mixing
    unused = r'\.mixer\.'

    def __init__(
        self,
        arch: str | Mapping[str, Any] = 's0',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        attention: Choice = 'local_global',
        downsampling: Choice = 'local_global',
        resolution: int | tuple[int, int] = 224,
        resize_matrix: bool = False,
        output_stride: int = 32,
        drop_path_rate: float = 0.0,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_row(arch, VARIANTS)
        strides, samplings = resolve_output_stride(output_stride, STRIDES, stem_stride=4)
        biased = partial(talking_heads, resolution, resize_matrix)
        # keys are at stride 32 in both stages, or denser in a dilated one
        in_blocks = dict(local_global=biased(32)) | MIXERS
        in_between = dict(
            local_global=biased(16, stride=samplings[3].stride, mix_heads=False),
            mobile=MobileAttention,
        )
        mixers = dict(
            attention=choose(attention, in_blocks),
            downsampling=choose(downsampling, in_between, argument='downsampling'),
        )
        tables = [name for name, mixer in mixers.items() if mixer.func not in MIXERS.values()]
        check_output_stride(output_stride, resize_matrix, tables)
        super().__init__(
            stem=ConvStem(sizes.channels[0], nn.GELU),
            make_stage=lambda i: make_stage(
                sizes, i, *mixers.values(), samplings[i], drop_path_rate
            ),
            channels=sizes.channels,
            strides=strides,
            out_indices=out_indices,
            **options,
        )


@register_backbone
class EfficientFormerV2MobiAtt(EfficientFormerV2):
    """EfficientFormerV2 with Mobile-Attention in its blocks (ICML 2024).

    The same as :class:`EfficientFormerV2` with ``attention='mobile'``, under a name of its own.
    """

    def __init__(self, arch: str | Mapping[str, Any] = 's0', **options: Any) -> None:
        super().__init__(arch, **{'attention': 'mobile', **options})
