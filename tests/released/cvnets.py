"""cvnets' networks with MobileViTv2 in plain torch, whose keys are those of the released files.

The encoder is timm's. Written from the facts of the releases and not from our modules: SSDLite,
PSPNet and DeepLabv3 with their forward passes, SSDLite's boxes, and the pictures that they are fed.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torchvision.ops import box_convert, clip_boxes_to_image, nms

from tests.released import files

SSD_CHANNELS = (512, 256, 256, 128, 128, 64)
SSD_RATIOS = ((2, 3),) * 5 + ((2,),)
COCO_CLASSES = 80


class Conv(nn.Module):
    def __init__(
        self, before, after, side=1, *, stride=1, dilation=1, groups=1, norm=True, bias=False,
        act=None,
    ):  # fmt: skip
        super().__init__()
        padding = (side - 1) // 2 * dilation
        conv = nn.Conv2d(before, after, side, stride, padding, dilation, groups, bias)
        parts = OrderedDict(conv=conv)
        if norm:
            parts['norm'] = nn.BatchNorm2d(after)
        if act is not None:
            parts['act'] = act()
        self.block = nn.Sequential(parts)

    def forward(self, x):
        return self.block(x)


class Encoder(files.TimmBackbone):
    """Maps of layer_4 and layer_5."""

    def __init__(self, width: float, output_stride: int = 32):
        name = f'mobilevitv2_{round(100 * width):03d}'
        super().__init__('mobilevitv2', name, output_stride=output_stride)
        self.channels = (int(384 * width), int(512 * width))

    def forward(self, x):
        return tuple(super().forward(x)[-2:])


class Separable(nn.Module):
    def __init__(self, before, after, *, stride=1, predicts=False):
        super().__init__()
        self.dw_conv = Conv(before, before, 3, stride=stride, groups=before)
        self.pw_conv = (
            Conv(before, after, norm=False, bias=True)
            if predicts
            else Conv(before, after, act=nn.ReLU)
        )

    def forward(self, x):
        return self.pw_conv(self.dw_conv(x))


class SSDHead(nn.Module):
    def __init__(self, before, channels, outputs, *, last):
        super().__init__()
        if before != channels:
            self.proj_layer = Conv(before, channels, act=nn.ReLU)
        self.loc_cls_layer = (
            Conv(channels, outputs, norm=False, bias=True)
            if last
            else Separable(channels, outputs, predicts=True)
        )

    def forward(self, x):
        if hasattr(self, 'proj_layer'):
            x = self.proj_layer(x)
        return self.loc_cls_layer(x)


class SSDLite(nn.Module):
    def __init__(self, width: float, classes: int = COCO_CLASSES):
        super().__init__()
        self.encoder = Encoder(width)
        c4, c5 = self.encoder.channels
        self.extra_layers = nn.ModuleDict(
            {
                'os_64': Separable(c5, 256, stride=2),
                'os_128': Separable(256, 128, stride=2),
                'os_256': Separable(128, 128, stride=2),
                'os_-1': nn.Sequential(
                    nn.AdaptiveAvgPool2d(1), Conv(128, 64, norm=False, act=nn.ReLU)
                ),
            }
        )
        self.rows = 4 + 1 + classes  # per anchor: box, background, classes
        self.ssd_heads = nn.ModuleList(
            SSDHead(before, channels, (2 + 2 * len(ratios)) * self.rows, last=before == 64)
            for before, channels, ratios in zip(
                (c4, c5, 256, 128, 128, 64), SSD_CHANNELS, SSD_RATIOS, strict=True
            )
        )

    def forward(self, x):
        """(1, 3, H, W) -> box values (N, 4), logits (N, 1 + classes), relative anchors (N, 4)."""
        levels = list(self.encoder(x))
        for layer in self.extra_layers.values():
            levels.append(layer(levels[-1]))
        sizes = np.linspace(0.1, 1.05, len(levels) + 1)
        rows, anchors = [], []
        for level, head, ratios, (size, larger) in zip(
            levels, self.ssd_heads, SSD_RATIOS, pairwise(sizes), strict=True
        ):
            rows.append(head(level).permute(0, 2, 3, 1).reshape(-1, self.rows))
            anchors.append(ssd_anchors(*level.shape[2:], size, larger, ratios))
        rows = torch.cat(rows)
        return rows[:, :4], rows[:, 4:], torch.cat(anchors)

    @torch.no_grad()
    def detect(self, x: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes in pixels of the original image, scores and labels from 0, best first."""
        return select(*self(x), (height, width))


def select(
    values: Tensor, logits: Tensor, anchors: Tensor, size: tuple[int, int],
    nms_pre: int = 400, threshold: float = 0.01, max_boxes: int = 200,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The best boxes of every class, as :meth:`SSDLite.detect` returns them."""
    values = values * values.new_tensor([0.1, 0.1, 0.2, 0.2])
    centers = anchors[:, :2] + values[:, :2] * anchors[:, 2:]
    boxes = torch.cat([centers, anchors[:, 2:] * values[:, 2:].exp()], dim=1)
    boxes = box_convert(boxes, 'cxcywh', 'xyxy') * boxes.new_tensor(size[::-1]).repeat(2)
    found = []
    for label, scores in enumerate(logits.softmax(dim=-1).T[1:]):
        best = scores.topk(min(nms_pre, len(scores))).indices
        best = best[scores[best] > threshold]
        kept = best[nms(boxes[best], scores[best].to(boxes), 0.5)]
        found += [(scores[i], torch.tensor(label), boxes[i]) for i in kept]
    found.sort(key=lambda item: -item[0])
    scores, labels, best = map(torch.stack, zip(*found[:max_boxes], strict=True))
    return clip_boxes_to_image(best, size), scores, labels


def deviations(network: SSDLite) -> dict[nn.Module, float]:
    """Standard deviations of the last layers' outputs, with which some boxes are found."""
    layers = [head.loc_cls_layer for head in network.ssd_heads]
    return {getattr(layer, 'pw_conv', layer).block.conv: 1.5 for layer in layers}


def ssd_anchors(height: int, width: int, size: float, larger: float, ratios: tuple) -> Tensor:
    """(cx, cy, w, h) of every cell, row by row."""
    sides = [(size, size), (math.sqrt(size * larger),) * 2]
    for ratio in ratios:
        long, short = size * math.sqrt(ratio), size / math.sqrt(ratio)
        sides += [(long, short), (short, long)]
    rows = [
        [(x + 0.5) / width, (y + 0.5) / height, *pair]
        for y in range(height) for x in range(width) for pair in sides
    ]  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64).clamp(0, 1)


class PyramidPooling(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.psp_branches = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(side), Conv(channels, channels // 4, act=nn.ReLU))
            for side in (1, 2, 3, 6)
        )
        self.fusion = nn.Sequential(Conv(2 * channels, 512, 3, act=nn.ReLU), nn.Dropout2d(0.1))

    def forward(self, x):
        pools = [
            F.interpolate(branch(x), x.shape[2:], mode='bilinear', align_corners=True)
            for branch in self.psp_branches
        ]
        return self.fusion(torch.cat([x, *pools], dim=1))


class ASPPPool(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.aspp_pool = nn.Sequential(OrderedDict(
            global_pool=nn.AdaptiveAvgPool2d(1), conv_1x1=Conv(channels, 512, act=nn.ReLU)
        ))  # fmt: skip

    def forward(self, x):
        return F.interpolate(self.aspp_pool(x), x.shape[2:], mode='bilinear', align_corners=False)


class ASPP(nn.Module):
    def __init__(self, channels, rates):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                Conv(channels, 512, act=nn.ReLU),
                *(Conv(channels, 512, 3, dilation=rate, act=nn.ReLU) for rate in rates),
                ASPPPool(channels),
            ]
        )
        self.project = Conv(5 * 512, 512, act=nn.ReLU)

    def forward(self, x):
        return self.project(torch.cat([conv(x) for conv in self.convs], dim=1))


class Segmentor(nn.Module):
    """PSPNet or DeepLabv3."""

    def __init__(self, head: str, width: float, classes: int, output_stride: int):
        super().__init__()
        self.encoder = Encoder(width, output_stride)
        self.stride = output_stride
        c4, c5 = self.encoder.channels
        middle = max(c4 // 4, 128)
        context = (
            OrderedDict(psp_layer=PyramidPooling(c5))
            if head == 'pspnet'
            else OrderedDict(aspp=nn.Sequential(OrderedDict(
                aspp_layer=ASPP(c5, (12, 24, 36) if output_stride == 8 else (6, 12, 18)),
            )))
        )  # fmt: skip
        self.seg_head = nn.ModuleDict(OrderedDict(
            aux_head=nn.Sequential(
                Conv(c4, middle, 3, act=nn.ReLU),
                nn.Dropout2d(0.1),
                Conv(middle, classes, norm=False, bias=True),
            ),
            **context,
            classifier=Conv(512, classes, norm=False, bias=True),
        ))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits at the stride of the last map."""
        _, x = self.encoder(x)
        context = next(
            layer for name, layer in self.seg_head.items() if name in ('psp_layer', 'aspp')
        )
        return self.seg_head['classifier'](context(x))

    @torch.no_grad()
    def segment(self, x: Tensor, height: int, width: int) -> Tensor:
        """Logits of every pixel of the original image: (classes, height, width)."""
        sides = [side // self.stride * self.stride for side in x.shape[2:]]
        if sides != list(x.shape[2:]):
            x = F.interpolate(x, sides, mode='bilinear', align_corners=True)
        return F.interpolate(self(x), (height, width), mode='bilinear', align_corners=True)[0]


def read(path: Path, size: tuple[int, int]) -> Tensor:
    """An image read as in the authors' evaluation, resized to (width, height)."""
    with Image.open(path) as image:
        resized = image.convert('RGB').resize(size, Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1)[None].float() / 255


@dataclass(frozen=True)
class Release:
    """A file of the model zoo.

    Args:
        config: Ours.
        stem: Of the file's name.
        width: Of MobileViTv2.
        head: 'ssdlite', 'pspnet' or 'deeplabv3'.
        classes: Outputs.
        megabytes: Of all tensors.
    """

    config: str
    stem: str
    width: float
    head: str
    classes: int
    megabytes: float

    def network(self) -> nn.Module:
        if self.head == 'ssdlite':
            return SSDLite(self.width, self.classes)
        return Segmentor(self.head, self.width, self.classes, 8 if self.classes == 150 else 16)

    @property
    def tensors(self) -> int:
        return {'ssdlite': 352 if self.width == 0.5 else 358, 'pspnet': 307, 'deeplabv3': 313}[
            self.head
        ]


def releases_of(head: str, ending: str, stem: str, classes: int, sizes: dict) -> dict[str, Release]:
    releases = (
        Release(
            f'{head}_mobilevitv2_{round(100 * width):03d}{ending}', f'{stem}-{width}', width, head,
            classes, megabytes,
        )
        for width, megabytes in sizes.items()
    )  # fmt: skip
    return {release.config: release for release in releases}


RELEASES = {
    **releases_of('ssdlite', '', 'coco-ssd-mobilevitv2', 80,
                  {0.5: 8.2, 0.75: 14.4, 1.0: 22.5, 1.25: 32.8, 1.5: 45.2, 1.75: 59.8, 2.0: 76.6}),
    **releases_of('pspnet', '_ade20k', 'pspnet-mobilevitv2', 150,
                  {0.5: 15.5, 0.75: 26.4, 1.0: 39.7, 1.25: 55.3, 1.5: 73.5, 1.75: 94.3}),
    **releases_of('deeplabv3', '_ade20k', 'deeplabv3-mobilevitv2', 150,
                  {0.5: 26.3, 0.75: 39.8, 1.0: 55.5, 1.25: 73.3, 1.5: 93.7, 1.75: 116.5,
                   2.0: 141.7}),
    **releases_of('pspnet', '_voc12', 'pspnet-mobilevitv2', 21,
                  {0.5: 15.1, 0.75: 26.1, 1.0: 39.4, 1.25: 54.9, 1.5: 73.1}),
    **releases_of('deeplabv3', '_voc12', 'deeplabv3-mobilevitv2', 21,
                  {0.5: 25.9, 1.0: 55.1, 1.25: 73.0, 1.5: 93.4}),
}  # fmt: skip
