"""SHViT-S4's detectors, whose keys are those of the released files.

The backbone is timm's, the heads are those of mmdet's own configs. The pyramid is written from the
facts of the releases and not from our module.
"""

from collections import OrderedDict
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from tests.released import files

CHANNELS = (224, 336, 448)


def plain(conv: nn.Module) -> nn.Sequential:
    """Mmcv's ConvModule without norm and activation."""
    return nn.Sequential(OrderedDict(conv=conv))


class Pyramid(nn.Module):
    def __init__(self, finer, coarser):
        super().__init__()
        self.lateral_convs = nn.ModuleList(plain(nn.Conv2d(c, 256, 1)) for c in CHANNELS)
        self.fpn_convs = nn.ModuleList(plain(nn.Conv2d(256, 256, 3, 1, 1)) for _ in CHANNELS)
        if coarser:
            self.fpn_convs.append(plain(nn.Conv2d(CHANNELS[-1], 256, 3, 2, 1)))
        self.extra_trans_convs = nn.ModuleList(
            plain(nn.ConvTranspose2d(256, 256, 2, 2)) for _ in range(finer)
        )
        self.extra_fpn_convs = nn.ModuleList(
            plain(nn.Conv2d(256, 256, 3, 1, 1)) for _ in range(finer)
        )

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


def detector(config: str, **pyramid: object) -> nn.Module:
    backbone = dict(type=files.TimmBackbone, family='shvit', name='shvit_s4')
    return files.build_theirs('mmdet', config, backbone, dict(type=Pyramid, **pyramid))


RELEASES = dict(
    retinanet_shvit_s4=partial(detector, files.RETINANET, finer=1, coarser=True),
    maskrcnn_shvit_s4=partial(detector, files.MASK_RCNN, finer=2, coarser=False),
)


def deviations(network: nn.Module) -> list[dict[nn.Module, float]]:
    """Standard deviations of the last layers' outputs: boxes stay near their anchors."""
    if hasattr(network, 'bbox_head'):
        with torch.no_grad():
            network.bbox_head.retina_cls.bias.sub_(5.0)  # few anchors have an object
        return [{network.bbox_head.retina_cls: 1.5, network.bbox_head.retina_reg: 0.3}]
    box, mask = network.roi_head.bbox_head, network.roi_head.mask_head
    return [
        {network.rpn_head.rpn_cls: 2.0, network.rpn_head.rpn_reg: 0.2},
        {box.fc_cls: 2.5, box.fc_reg: 2.0},
        {mask.conv_logits: 3.0},
    ]
