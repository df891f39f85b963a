"""The slim PSPNet and DeepLabv3 heads used with MobileViTv2 (arXiv:2206.02680), and SegFormer's
decoder with fewer MACs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from mmcv.cnn import ConvModule
from mmseg.models.decode_heads import segformer_head
from mmseg.models.decode_heads.decode_head import BaseDecodeHead
from mmseg.utils import SampleList
from torch import Tensor, nn

from mmeffvit.registries import MODELS

WIDTH_DIVISOR = 16


class FastLossHead(BaseDecodeHead):
    """A head with mmseg's losses in less time on CPUs.

    The logits get torch's default layout, to which a softmax over the channels of maps in
    channels_last would copy them; and the accuracy is computed without sorting them.
    """

    def loss_by_feat(self, seg_logits: Tensor, batch_data_samples: SampleList) -> dict[str, Tensor]:
        """Losses of logits (B, num_classes, H, W), and `acc_seg`: right pixels, in percent."""
        labels = self._stack_batch_gt(batch_data_samples)
        size = labels.shape[2:]
        logits = F.interpolate(
            seg_logits.contiguous(), size, mode='bilinear', align_corners=self.align_corners
        )
        weight = None if self.sampler is None else self.sampler.sample(logits, labels)
        labels = labels.squeeze(1)
        several = isinstance(self.loss_decode, nn.ModuleList)
        losses: dict[str, Tensor] = {}
        for module in self.loss_decode if several else [self.loss_decode]:
            loss = module(logits, labels, weight=weight, ignore_index=self.ignore_index)
            losses[module.loss_name] = losses.get(module.loss_name, 0) + loss
        return dict(losses, acc_seg=accuracy(logits.detach(), labels, self.ignore_index))


def accuracy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """Percentage of pixels whose own class has the highest logit, of those that are not ignored."""
    counted = labels != ignore_index
    known = counted & (labels < logits.shape[1])  # two classes may share a logit
    own = logits.gather(1, labels.where(known, 0).unsqueeze(1)).squeeze(1)
    right = known & (own == logits.amax(1))
    return 100 * right.sum() / counted.sum().clamp(min=1)


class ResizedOnceHead(FastLossHead):
    """A head whose logits are resized once, directly to the size of the original image.

    This is what the authors do; mmseg resizes them to the size of the input first.
    """

    def predict_by_feat(self, seg_logits: Tensor, batch_img_metas: Sequence[dict]) -> Tensor:
        """Logits of (B, num_classes, H, W) at the size of the original images.

        With sliding windows, padding or images of different sizes, they have the size of the input,
        just as mmseg resizes them.
        """
        sizes = {tuple(meta.get('ori_shape', ())[:2]) for meta in batch_img_metas}
        slides = isinstance(batch_img_metas[0]['img_shape'], torch.Size)
        paddings = (m.get('img_padding_size', m.get('padding_size')) for m in batch_img_metas)
        is_padded = any(any(padding or ()) for padding in paddings)
        if slides or is_padded or len(sizes) > 1 or () in sizes:
            return super().predict_by_feat(seg_logits, batch_img_metas)
        size = sizes.pop()
        return F.interpolate(seg_logits, size, mode='bilinear', align_corners=self.align_corners)


@MODELS.register_module()
class SlimPSPHead(ResizedOnceHead):
    """Pyramid pooling (arXiv:1612.01105) that divides the input channels among its branches.

    Each branch averages the map to a small grid, reduces it to ``C / branches`` channels, rounded
    down to a multiple of 16, and resizes it back; a 3x3 convolution fuses the input and all
    branches. mmseg's ``PSPHead`` gives every branch as many channels as the head itself: the model
    has 11.2 million parameters with MobileViTv2-0.5, compared to 2.5 with this head.

    In training a batch needs at least two images, because of the batch norm of the 1x1 branch.

    Args:
        pool_sizes: Sides of the pooled grids, in cells.
        options: Options of mmseg's ``BaseDecodeHead``: `in_channels`, `channels`, `num_classes`...

    Shape:
        Maps of a backbone; (B, C, H, W) of `in_index` -> (B, num_classes, H, W).

    Raises:
        ValueError: If a branch would have less than 16 channels.
    """

    def __init__(self, pool_sizes: Sequence[int] = (1, 2, 3, 6), **options: Any) -> None:
        super().__init__(**options)
        width = self.in_channels // len(pool_sizes) // WIDTH_DIVISOR * WIDTH_DIVISOR
        if not width:
            raise ValueError(
                f'{self.in_channels} channels are too few for {len(pool_sizes)} branches of '
                f'{WIDTH_DIVISOR} or more each'
            )
        conv = make_conv(self)
        self.pools = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(size), conv(self.in_channels, width, 1))
            for size in pool_sizes
        )
        joined = self.in_channels + len(pool_sizes) * width
        self.fuse = conv(joined, self.channels, 3, padding=1)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        x = self._transform_inputs(inputs)
        resize = partial(
            F.interpolate, size=x.shape[2:], mode='bilinear', align_corners=self.align_corners
        )
        context = [resize(pool(x)) for pool in self.pools]
        return self.cls_seg(self.fuse(torch.cat([x, *context], dim=1)))


@MODELS.register_module()
class SlimASPPHead(ResizedOnceHead):
    """Atrous spatial pyramid pooling (arXiv:1706.05587), fused by a 1x1 convolution.

    The branches are a 1x1 convolution, one dilated 3x3 convolution per rate and global average
    pooling. mmseg's ``ASPPHead`` fuses with a 3x3 convolution: the model has 15.7 million
    parameters with MobileViTv2-0.5, compared to 5.2 with this head.

    In training a batch needs at least two images, because of the batch norm after global pooling.

    Args:
        dilations: Dilations of the 3x3 convolutions.
        options: Options of mmseg's ``BaseDecodeHead``: `in_channels`, `channels`, `num_classes`...

    Shape:
        Maps of a backbone; (B, C, H, W) of `in_index` -> (B, num_classes, H, W).
    """

    def __init__(self, dilations: Sequence[int] = (6, 12, 18), **options: Any) -> None:
        super().__init__(**options)
        conv = make_conv(self)
        branch = partial(conv, self.in_channels, self.channels)
        dilated = (branch(3, padding=rate, dilation=rate) for rate in dilations)
        self.branches = nn.ModuleList([branch(1), *dilated])
        self.image_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), branch(1))
        self.fuse = conv((len(dilations) + 2) * self.channels, self.channels, 1)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        x = self._transform_inputs(inputs)
        pooled = self.image_pool(x).expand(-1, -1, *x.shape[2:])  # (B, C, 1, 1) -> (B, C, H, W)
        branches = [branch(x) for branch in self.branches]
        return self.cls_seg(self.fuse(torch.cat([*branches, pooled], dim=1)))


@MODELS.register_module()
class SegformerHead(FastLossHead, segformer_head.SegformerHead):
    """SegFormer's decoder (arXiv:2105.15203) with its maps fused before their resize.

    It has the weights of mmseg's ``SegformerHead`` and, up to rounding, its logits. A 1x1
    convolution and a bilinear resize commute, so every map is convolved at its own size: a third of
    the fusion's MACs, and no concatenation of all channels at the finest size.

    Args:
        options: Options of mmseg's ``SegformerHead``: `in_channels`, `channels`, `num_classes`, ...

    Shape:
        Maps of a backbone; (B, C, H, W) of each of `in_index` -> (B, num_classes, H, W) at the size
        of the first.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        conv = self.fusion_conv.conv
        fusion = FusionBeforeResize(
            partial(F.interpolate, mode=self.interpolate_mode, align_corners=self.align_corners),
            conv.in_channels, conv.out_channels, 1, bias=conv.bias is not None, device='meta',
        )  # fmt: skip
        fusion.weight, fusion.bias = conv.weight, conv.bias
        self.fusion_conv.conv = fusion

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        maps = self._transform_inputs(inputs)
        return self.cls_seg(
            self.fusion_conv([conv(x) for conv, x in zip(self.convs, maps, strict=True)])
        )


class FusionBeforeResize(nn.Conv2d):
    """A 1x1 convolution of maps that are resized to the first and concatenated.

    Shape:
        Maps (B, C_i, H_i, W_i), with ``in_channels`` together -> (B, out_channels, H_0, W_0).
    """

    def __init__(self, resize: Callable[..., Tensor], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.resize = resize

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        first, *others = self.weight.split([x.shape[1] for x in maps], dim=1)
        total = F.conv2d(maps[0], first, self.bias)
        for x, weight in zip(maps[1:], others, strict=True):
            total = total + self.resize(F.conv2d(x, weight), total.shape[2:])
        return total


def make_conv(head: BaseDecodeHead) -> partial[ConvModule]:
    """A convolution with the norm and the activation of ``head``'s config."""
    return partial(ConvModule, conv_cfg=head.conv_cfg, norm_cfg=head.norm_cfg, act_cfg=head.act_cfg)
