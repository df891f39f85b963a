"""SHViT-S4's detectors in plain torch, whose keys are those of mmdet 2's released files.

The backbone is timm's. Written from the facts of the releases and not from our modules: the
pyramid, the heads of RetinaNet and Mask R-CNN, their anchors, boxes and masks.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import batched_nms, roi_align

from tests.released import files
from tests.released.boxes import decode, grid_anchors

CHANNELS = (224, 336, 448)
CLASSES = 80
MAX_LOG = abs(math.log(16 / 1000))
MEAN = torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1)
STD = torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1)


class Plain(nn.Module):
    """mmcv's ConvModule without norm and activation."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        return self.conv(x)


def plain(before, after, side, stride=1):
    return Plain(nn.Conv2d(before, after, side, stride, side // 2))


class Pyramid(nn.Module):
    def __init__(self, finer, coarser):
        super().__init__()
        self.lateral_convs = nn.ModuleList(plain(c, 256, 1) for c in CHANNELS)
        self.fpn_convs = nn.ModuleList(plain(256, 256, 3) for _ in CHANNELS)
        if coarser:
            self.fpn_convs.append(plain(CHANNELS[-1], 256, 3, 2))
        self.extra_trans_convs = nn.ModuleList(
            Plain(nn.ConvTranspose2d(256, 256, 2, 2)) for _ in range(finer)
        )
        self.extra_fpn_convs = nn.ModuleList(plain(256, 256, 3) for _ in range(finer))

    def forward(self, maps):
        coarsest = maps[-1]
        l16, l32, l64 = (conv(c) for conv, c in zip(self.lateral_convs, maps, strict=True))
        l32 = l32 + F.interpolate(l64, l32.shape[2:], mode='nearest')
        l16 = l16 + F.interpolate(l32, l16.shape[2:], mode='nearest')
        fine, finest = [], l16
        for conv in self.extra_trans_convs:
            finest = conv(finest)
            fine.insert(0, finest)
        outputs = [conv(x) for conv, x in zip(self.extra_fpn_convs, fine, strict=True)]
        outputs += [conv(x) for conv, x in zip(self.fpn_convs, (l16, l32, l64), strict=False)]
        if len(self.fpn_convs) == 4:
            outputs.append(self.fpn_convs[3](coarsest))
        return outputs


class RetinaHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.cls_convs = nn.ModuleList(plain(256, 256, 3) for _ in range(4))
        self.reg_convs = nn.ModuleList(plain(256, 256, 3) for _ in range(4))
        self.retina_cls = nn.Conv2d(256, 9 * CLASSES, 3, padding=1)
        self.retina_reg = nn.Conv2d(256, 9 * 4, 3, padding=1)

    def forward(self, x):
        scores = boxes = x
        for conv in self.cls_convs:
            scores = F.relu(conv(scores))
        for conv in self.reg_convs:
            boxes = F.relu(conv(boxes))
        return self.retina_cls(scores), self.retina_reg(boxes)


class Detector(nn.Module):
    """The common parts of both detectors."""

    def __init__(self, finer, coarser):
        super().__init__()
        self.backbone = files.TimmBackbone('shvit', 'shvit_s4')
        self.neck = Pyramid(finer, coarser)

    def features(self, pixels):
        """Maps of an RGB image, (1, 3, H, W) from 0 to 255, zero-padded to multiples of 32."""
        height, width = pixels.shape[2:]
        x = F.pad((pixels - MEAN) / STD, (0, -width % 32, 0, -height % 32))
        return self.neck(self.backbone(x))

    def forward(self, pixels):
        return [self.head(x) for x in self.features(pixels)]


class RetinaNet(Detector):
    def __init__(self):
        super().__init__(1, True)
        self.bbox_head = RetinaHead()

    def head(self, x):
        return self.bbox_head(x)

    @torch.no_grad()
    def detect(self, pixels: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes in pixels of the original image, scores and labels, best first.

        Args:
            pixels: As :meth:`features`.
            scale: Resized over original (width, height).
        """
        height, width = pixels.shape[2:]
        boxes, scores, labels = [], [], []
        for x, stride in zip(self.features(pixels), (8, 16, 32, 64, 128), strict=True):
            logits, deltas = self.bbox_head(x)
            side = 4 * stride
            sides = [
                (side * octave / math.sqrt(ratio), side * octave * math.sqrt(ratio))
                for ratio in (0.5, 1.0, 2.0)
                for octave in (1, 2 ** (1 / 3), 2 ** (2 / 3))
            ]
            anchors = grid_anchors(*x.shape[2:], stride, sides)
            found = logits[0].permute(1, 2, 0).reshape(-1, CLASSES).sigmoid()
            deltas = deltas[0].permute(1, 2, 0).reshape(-1, 4)
            above = (found > 0.05).nonzero()
            best = found[above[:, 0], above[:, 1]].sort(descending=True, stable=True)
            above = above[best.indices[:1000]]
            boxes.append(decode(anchors[above[:, 0]], deltas[above[:, 0]], MAX_LOG))
            scores.append(best.values[:1000])
            labels.append(above[:, 1])
        limits = torch.tensor([width, height, width, height])
        boxes = torch.cat(boxes).clamp(min=0).minimum(limits) / scale.repeat(2)
        scores, labels = torch.cat(scores), torch.cat(labels)
        kept = batched_nms(boxes, scores, labels, 0.5)[:100]
        return boxes[kept], scores[kept], labels[kept]


class RPNHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.rpn_conv = nn.Conv2d(256, 256, 3, padding=1)
        self.rpn_cls = nn.Conv2d(256, 3, 1)
        self.rpn_reg = nn.Conv2d(256, 12, 1)

    def forward(self, x):
        x = F.relu(self.rpn_conv(x))
        return self.rpn_cls(x), self.rpn_reg(x)

    def propose(self, levels, height, width):
        boxes, scores, numbers = [], [], []
        limits = torch.tensor([width, height, width, height])
        for number, (x, stride) in enumerate(zip(levels, (4, 8, 16, 32, 64), strict=True)):
            logits, deltas = self(x)
            sides = [
                (8 * stride / math.sqrt(ratio), 8 * stride * math.sqrt(ratio))
                for ratio in (0.5, 1.0, 2.0)
            ]
            anchors = grid_anchors(*x.shape[2:], stride, sides)
            found = logits[0].permute(1, 2, 0).reshape(-1).sigmoid()
            best = found.sort(descending=True, stable=True).indices[:1000]
            deltas = deltas[0].permute(1, 2, 0).reshape(-1, 4)
            decoded = decode(anchors[best], deltas[best], MAX_LOG).clamp(min=0).minimum(limits)
            whole = (decoded[:, 2:] - decoded[:, :2] > 0).all(dim=1)
            boxes.append(decoded[whole])
            scores.append(found[best][whole])
            numbers.append(torch.full((int(whole.sum()),), number))
        boxes, scores = torch.cat(boxes), torch.cat(scores)
        return boxes[batched_nms(boxes, scores, torch.cat(numbers), 0.7)[:1000]]


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared_fcs = nn.ModuleList([nn.Linear(256 * 49, 1024), nn.Linear(1024, 1024)])
        self.fc_cls = nn.Linear(1024, CLASSES + 1)
        self.fc_reg = nn.Linear(1024, CLASSES * 4)

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.shared_fcs:
            x = F.relu(layer(x))
        return self.fc_cls(x).softmax(dim=-1), self.fc_reg(x)


class MaskHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(plain(256, 256, 3) for _ in range(4))
        self.upsample = nn.ConvTranspose2d(256, 256, 2, 2)
        self.conv_logits = nn.Conv2d(256, CLASSES, 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.relu(conv(x))
        return self.conv_logits(F.relu(self.upsample(x))).sigmoid()


def align(levels: list[Tensor], boxes: Tensor, side: int) -> Tensor:
    """RoIAlign of every box from the level of its size: (N, 256, side, side)."""
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    numbers = torch.log2(areas.sqrt() / 56 + 1e-6).floor().clamp(0, 3).long()
    crops = levels[0].new_zeros(len(boxes), 256, side, side)
    for number, level in enumerate(levels[:4]):
        own = numbers == number
        crops[own] = roi_align(level, [boxes[own]], side, 1 / (4 * 2**number), aligned=True)
    return crops


class MaskRCNN(Detector):
    def __init__(self):
        super().__init__(2, False)
        self.rpn_head = RPNHead()
        self.roi_head = nn.ModuleDict(dict(bbox_head=BoxHead(), mask_head=MaskHead()))

    def head(self, x):
        """The outputs of the heads for a proposal, and of the RPN for a level."""
        crops = align([x] * 4, torch.tensor([[0.0, 0.0, 60.0, 60.0]]), 7)
        return (
            self.rpn_head(x),
            self.roi_head['bbox_head'](crops),
            self.roi_head['mask_head'](crops),
        )

    @torch.no_grad()
    def detect(self, pixels: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Boxes in pixels of the original image, scores, labels and 28 x 28 masks in them."""
        height, width = pixels.shape[2:]
        levels = self.features(pixels)
        proposals = self.rpn_head.propose(levels, height, width)
        scores, deltas = self.roi_head['bbox_head'](align(levels, proposals, 7))
        centers = (proposals[:, :2] + proposals[:, 2:]) / 2
        anchors = torch.cat([centers, proposals[:, 2:] - proposals[:, :2]], dim=1)
        deltas = deltas * deltas.new_tensor([0.1, 0.1, 0.2, 0.2]).repeat(CLASSES)
        above = (scores[:, :-1] > 0.05).nonzero()
        rows, labels = above[:, 0], above[:, 1]
        deltas = deltas.view(-1, CLASSES, 4)[rows, labels]
        limits = torch.tensor([width, height, width, height])
        boxes = decode(anchors[rows], deltas, MAX_LOG).clamp(min=0).minimum(limits)
        boxes, found = boxes / scale.repeat(2), scores[rows, labels]
        kept = batched_nms(boxes, found, labels, 0.5)[:100]
        boxes, labels = boxes[kept], labels[kept]
        masks = self.roi_head['mask_head'](align(levels, boxes * scale.repeat(2), 14))
        return boxes, found[kept], labels, masks[torch.arange(len(kept)), labels]


def paste(mask: Tensor, box: Tensor, height: int, width: int) -> Tensor:
    """The pixels of an image whose centers are inside the mask of a box."""
    left, top, right, bottom = box.tolist()
    y = (torch.arange(height) + 0.5 - top) / (bottom - top) * 2 - 1
    x = (torch.arange(width) + 0.5 - left) / (right - left) * 2 - 1
    grid = torch.stack(torch.meshgrid(x, y, indexing='xy'), dim=-1)[None]
    return F.grid_sample(mask[None, None], grid, align_corners=False)[0, 0] >= 0.5


def deviations(network: nn.Module) -> dict[nn.Module, float]:
    """Standard deviations of the last layers' outputs: boxes stay near their anchors."""
    if isinstance(network, RetinaNet):
        with torch.no_grad():
            network.bbox_head.retina_cls.bias.sub_(5.0)  # few anchors have an object
        return {network.bbox_head.retina_cls: 1.5, network.bbox_head.retina_reg: 0.3}
    box, mask = network.roi_head['bbox_head'], network.roi_head['mask_head']
    return {
        network.rpn_head.rpn_cls: 2.0, network.rpn_head.rpn_reg: 0.2,
        box.fc_cls: 2.5, box.fc_reg: 2.0, mask.conv_logits: 3.0,
    }  # fmt: skip
