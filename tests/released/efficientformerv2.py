"""EfficientFormerV2's Mask R-CNN and Semantic FPN in plain torch, with the authors' keys.

The backbone is timm's. Written from the facts of the releases and not from our modules: the tables
of biases, the pyramid and the head of Semantic FPN. The heads of Mask R-CNN are those of SHViT's.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.released import files, shvit

CHANNELS = {'s2': (32, 64, 144, 288), 'l': (40, 80, 192, 384)}


class Backbone(files.TimmBackbone):
    """Its tables have keys of their own, beside those of the classifier, which are dead."""

    def __init__(self, arch: str, resolution: int):
        name = f'efficientformerv2_{arch}'
        super().__init__('efficientformerv2', name, img_size=resolution)
        self.register_state_dict_post_hook(as_in_detectors)


def as_in_detectors(backbone: Backbone, state: dict, prefix: str, _: object) -> None:
    for key in [key for key in state if key.startswith(f'{prefix}norm.')]:
        del state[key]
    for key in [key for key in state if key.endswith('.attention_biases')]:
        state[f'{key}_seg'] = state[key]
        state[key] = torch.zeros(8, 49)
        for ending in ('idxs', 'idxs_seg'):
            state[key.removesuffix('es') + f'_{ending}'] = torch.zeros(49, 49).long()


class Pyramid(nn.Module):
    """FPN of mmdet 2 and mmseg 0."""

    def __init__(self, channels, *, pooled):
        super().__init__()
        self.lateral_convs = nn.ModuleList(shvit.plain(c, 256, 1) for c in channels)
        self.fpn_convs = nn.ModuleList(shvit.plain(256, 256, 3) for _ in channels)
        self.pooled = pooled

    def forward(self, maps):
        sums = [conv(x) for conv, x in zip(self.lateral_convs, maps, strict=True)]
        for index in (2, 1, 0):
            sums[index] = sums[index] + F.interpolate(sums[index + 1], sums[index].shape[2:])
        outputs = [conv(x) for conv, x in zip(self.fpn_convs, sums, strict=True)]
        return [*outputs, outputs[-1][:, :, ::2, ::2]] if self.pooled else outputs


class MaskRCNN(shvit.MaskRCNN):
    def __init__(self, arch: str, resolution: int = 800):
        super().__init__()
        self.backbone = Backbone(arch, resolution)
        self.neck = Pyramid(CHANNELS[arch], pooled=True)

    def trunk(self, pixels: Tensor) -> list[Tensor]:
        return self.features(pixels)


class SemanticHead(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.scale_heads = nn.ModuleList()
        for index in range(4):
            steps = []
            for number in range(max(index, 1)):
                before = 128 if number else 256
                step = nn.Sequential()
                step.add_module('conv', nn.Conv2d(before, 128, 3, padding=1, bias=False))
                step.add_module('bn', nn.BatchNorm2d(128))
                step.add_module('activate', nn.ReLU())
                steps.append(step)
                if index:
                    steps.append(nn.Upsample(scale_factor=2, mode='bilinear'))
            self.scale_heads.append(nn.Sequential(*steps))
        self.conv_seg = nn.Conv2d(128, classes, 1)

    def forward(self, levels):
        maps = [head(x) for head, x in zip(self.scale_heads, levels, strict=True)]
        resized = [F.interpolate(x, maps[0].shape[2:], mode='bilinear') for x in maps]
        return self.conv_seg(sum(resized))


class SemanticFPN(nn.Module):
    """150 classes."""

    def __init__(self, arch: str, resolution: int = 512):
        super().__init__()
        self.backbone = Backbone(arch, resolution)
        self.neck = Pyramid(CHANNELS[arch], pooled=False)
        self.decode_head = SemanticHead(150)

    def trunk(self, pixels: Tensor) -> Tensor:
        return self.decode_head(self.neck(self.backbone((pixels - shvit.MEAN) / shvit.STD)))

    @torch.no_grad()
    def segment(self, pixels: Tensor) -> Tensor:
        """(1, 3, H, W) RGB from 0 to 255 -> logits of (150, H, W)."""
        return F.interpolate(self.trunk(pixels), pixels.shape[2:], mode='bilinear')[0]


RELEASES: dict[str, Callable[..., nn.Module]] = {
    'maskrcnn_efficientformerv2_s2': partial(MaskRCNN, 's2'),
    'maskrcnn_efficientformerv2_l': partial(MaskRCNN, 'l'),
    'semfpn_efficientformerv2_s2_ade20k': partial(SemanticFPN, 's2'),
    'semfpn_efficientformerv2_l_ade20k': partial(SemanticFPN, 'l'),
}


def with_random_weights(network: nn.Module, pixels: Tensor) -> nn.Module:
    """As of the other releases, with biases and scales of a size that matters.

    The statistics are those of an image: without them, deep maps would hardly vary over positions.
    """
    files.with_random_weights(network)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith('attention_biases'):
                parameter.normal_(0, 2)
            elif name.endswith('gamma'):
                parameter.uniform_(0.1, 0.5)
        for norm in norms:
            norm.momentum = 1.0
        network.train()
        network.trunk(pixels)
        for norm in norms:  # channels that hardly vary would amplify rounding
            norm.running_var.clamp_(min=0.1)
    return network.eval()
