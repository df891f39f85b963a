"""SwiftFormer: efficient additive attention for real-time mobile vision (arXiv:2303.15446)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from typing_extensions import Unpack

from mmeffvit.models.backbone import (
    Backbone,
    BackboneOptions,
    Sampling,
    Stage,
    drop_probs,
    resolve_output_stride,
)
from mmeffvit.models.layers.choice import Choice, choose, resolve_row
from mmeffvit.models.layers.conv import ConvNorm, ConvStem
from mmeffvit.models.layers.folding import absorb_batch_norm
from mmeffvit.models.layers.regularization import DropPath, LayerScale
from mmeffvit.models.layers.self_attention import SelfAttention
from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention
from mmeffvit.registries import register_backbone

from .ablations import CrossCovarianceAttention, KeyValueAdditiveAttention, TransposeAttention
from .attention import EfficientAdditiveAttention
from .keys import LAYOUTS

STRIDES = (4, 8, 16, 32)
EXPANSION = 4
ATTENTIONS = {
    'additive': EfficientAdditiveAttention,
    'key_value_additive': KeyValueAdditiveAttention,
    'self': SelfAttention,
    'transpose': TransposeAttention,
    'cross_covariance': CrossCovarianceAttention,
    # one context for all pixels: maps may have odd sides
    'separable': partial(SeparableSelfAttention, patch_size=1, relu=False),
}


@dataclass(frozen=True)
class SwiftFormerArch:
    """Sizes of one variant; every field has one value per stage."""

    channels: tuple[int, ...]
    depths: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.channels) != 4 or len(self.depths) != 4:
            raise ValueError(f'a SwiftFormer has 4 stages; got {self}')
        if min(self.channels) < 2 or min(self.depths) < 1:
            raise ValueError(f'channels must be at least 2 and depths at least 1; got {self}')


# Sizes of the released models
# fmt: off
VARIANTS = {  #          channels             depths
    'xs': SwiftFormerArch((48, 56, 112, 220), (3, 3, 6, 4)),
    's':  SwiftFormerArch((48, 64, 168, 224), (3, 3, 9, 6)),
    'l1': SwiftFormerArch((48, 96, 192, 384), (4, 3, 10, 5)),
    'l3': SwiftFormerArch((64, 128, 320, 512), (4, 4, 12, 6)),
}
# fmt: on


class ConvEncoder(nn.Module):
    """Depth-wise convolution and two 1x1 convolutions, as a residual branch.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, expansion: int, dilation: int = 1) -> None:
        super().__init__()
        spatial = dict(padding=dilation, dilation=dilation, groups=channels)
        self.depthwise = nn.Conv2d(channels, channels, 3, **spatial)
        self.norm = nn.BatchNorm2d(channels)
        self.expand = nn.Conv2d(channels, expansion * channels, 1)
        self.act = nn.GELU()
        self.project = nn.Conv2d(expansion * channels, channels, 1)
        self.layer_scale = LayerScale(channels, init=1.0)

    def folded(self) -> 'ConvEncoder':
        self.depthwise = fuse_conv_bn_eval(self.depthwise, self.norm)
        self.norm = nn.Identity()
        self.layer_scale = self.layer_scale.fold_into(self.project)
        return self

    def forward(self, x: Tensor) -> Tensor:
        branch = self.expand(self.norm(self.depthwise(x)))
        branch = self.project(self.act(branch))
        return self.layer_scale(x, branch)


class FeedForward(nn.Module):
    """Batch norm and two 1x1 convolutions.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, expansion: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.expand = nn.Conv2d(channels, expansion * channels, 1)
        self.act = nn.GELU()
        self.project = nn.Conv2d(expansion * channels, channels, 1)

    def folded(self) -> 'FeedForward':
        self.norm = absorb_batch_norm(self.norm, self.expand)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.act(self.expand(self.norm(x))))


class SwiftFormerEncoder(nn.Module):
    """Local representation, attention and feed-forward, each residual.

    Like the official code, the local representation has a residual connection, an activation and a
    layer scale, which equation 8 of the paper omits.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self,
        channels: int,
        make_attention: Callable[[int], nn.Module],
        drop_prob: float,
        dilation: int,
    ) -> None:
        super().__init__()
        self.local_representation = ConvEncoder(channels, 1, dilation)
        self.attention = make_attention(channels)
        self.attention_scale = LayerScale(channels)
        self.feed_forward = FeedForward(channels, EXPANSION)
        self.feed_forward_scale = LayerScale(channels)
        self.drop_path = DropPath(drop_prob)

    def folded(self) -> 'SwiftFormerEncoder':
        if isinstance(self.attention.out, nn.Conv2d):  # the printed form ends with a sum
            self.attention_scale = self.attention_scale.fold_into(self.attention.out)
        self.feed_forward_scale = self.feed_forward_scale.fold_into(self.feed_forward.project)
        return self

    def forward(self, x: Tensor) -> Tensor:
        x = self.local_representation(x)
        x = self.attention_scale(x, self.drop_path(self.attention(x)))
        return self.feed_forward_scale(x, self.drop_path(self.feed_forward(x)))


def make_stage(
    arch: SwiftFormerArch,
    index: int,
    sampling: Sampling,
    drop_path_rate: float,
    make_attention: Callable[[int], nn.Module],
) -> Stage:
    """A stage of convolutional encoders and one SwiftFormer encoder, the only one with drop path.

    The official code's drop probability counts the convolutional blocks, too, and so does this.
    """
    channels = arch.channels[index]
    drop_prob = drop_probs(drop_path_rate, arch.depths, index)[-1]
    spatial = dict(stride=sampling.stride, dilation=sampling.downsample_dilation, bias=True)
    downsample = (
        ConvNorm(arch.channels[index - 1], channels, 3, **spatial) if index else nn.Identity()
    )
    dilation = sampling.dilation
    encoders = [ConvEncoder(channels, EXPANSION, dilation) for _ in range(arch.depths[index] - 1)]
    last = SwiftFormerEncoder(channels, make_attention, drop_prob, dilation)
    return Stage(downsample, [*encoders, last])


def initialize(module: nn.Module) -> None:
    """Initialize as the official code does: normal, truncated at ±2, zero bias."""
    if isinstance(module, EfficientAdditiveAttention):
        nn.init.normal_(module.score.weight)  # parents are visited after their children
    elif isinstance(module, nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


@register_backbone
class SwiftFormer(Backbone):
    """SwiftFormer of arXiv:2303.15446, with four maps at strides 4, 8, 16 and 32.

    Args:
        arch: 'xs', 's', 'l1', 'l3', or a dict of the fields of :class:`SwiftFormerArch`.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        output_norm: Batch norm on every returned map, like the official code for dense prediction.
            No released checkpoint contains these: they keep their initial values.
        output_stride: 32, 16 or 8; below 32 the last stages are dilated instead of strided, and the
            declared strides change accordingly.
        attention: 'additive', 'key_value_additive', 'self', 'transpose', 'cross_covariance' or
            'separable', or a dict of such a name as `type` and of arguments of its layer, such as
            `num_heads`.
        drop_path_rate: Drop probability of the last block, in [0, 1); it is lower in earlier
            blocks.
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
        arch: str | Mapping[str, Any] = 'xs',
        *,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        output_norm: bool = True,
        output_stride: int = 32,
        attention: Choice = 'additive',
        drop_path_rate: float = 0.0,
        **options: Unpack[BackboneOptions],
    ) -> None:
        sizes = resolve_row(arch, VARIANTS)
        strides, samplings = resolve_output_stride(output_stride, STRIDES, stem_stride=4)
        make_attention = choose(attention, ATTENTIONS)
        if (side := make_attention.keywords.get('patch_size', 1)) != 1:
            raise ValueError(f'patch_size is {side!r}; choose 1, since maps may have odd sides')
        super().__init__(
            stem=ConvStem(sizes.channels[0], nn.ReLU),
            make_stage=lambda i: make_stage(sizes, i, samplings[i], drop_path_rate, make_attention),
            channels=sizes.channels,
            strides=strides,
            out_indices=out_indices,
            outputs=(lambda i: nn.BatchNorm2d(sizes.channels[i])) if output_norm else None,
            **options,
        )
        self.apply(initialize)
