"""EfficientFormerV2's Mask R-CNN and Semantic FPN in plain torch, with the authors' keys.

Written from the facts of the releases and not from our modules: the backbone with its bias tables,
the pyramid and the head of Semantic FPN. The heads of Mask R-CNN are those of SHViT's.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.released import files, shvit

HEADS = 8
SIZES = {  # channels, depths, blocks with attention of the last two stages, blocks of expansion 3
    's2': ((32, 64, 144, 288), (4, 4, 12, 8), 4, (range(2, 8), range(2, 6))),
    'l': ((40, 80, 192, 384), (5, 5, 15, 10), 6, (range(4, 11), range(3, 7))),
}


def conv_bn(before, after, side=1, stride=1, groups=1):
    conv = nn.Conv2d(before, after, side, stride, side // 2, groups=groups)
    return nn.Sequential(conv, nn.BatchNorm2d(after))


def heads_of(x):
    """(1, heads * D, H, W) -> (heads, H W, D)."""
    return x.flatten(2).view(HEADS, -1, x.shape[2] * x.shape[3]).transpose(1, 2)


class Biased(nn.Module):
    """The tables of both resolutions; those of the classifier are dead."""

    def __init__(self, side, query_side):
        super().__init__()
        step = side // query_side
        self.register_buffer('attention_biases', torch.zeros(HEADS, 49 * step**2))
        self.register_buffer('attention_bias_idxs', torch.zeros(49, 49 * step**2).long())
        self.attention_biases_seg = nn.Parameter(torch.zeros(HEADS, side**2))
        keys, queries = torch.arange(side), step * torch.arange(query_side)
        apart = (queries[:, None] - keys).abs()  # along one side
        rows = apart[:, None, :, None] * side + apart[None, :, None, :]
        self.register_buffer('attention_bias_idxs_seg', rows.reshape(query_side**2, side**2))

    def weights(self, query, key):
        """Scores with biases: of other numbers of tokens, the matrix is resized as an image."""
        scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[2])
        biases = self.attention_biases_seg[:, self.attention_bias_idxs_seg]
        return scores + F.interpolate(biases[None], scores.shape[1:], mode='bicubic')[0]


class Attention(Biased):
    def __init__(self, channels, side, stride):
        super().__init__(side // stride, side // stride)
        if stride > 1:
            self.stride_conv = conv_bn(channels, channels, 3, stride, channels)
        self.q = conv_bn(channels, 256)
        self.k = conv_bn(channels, 256)
        self.v = conv_bn(channels, 1024)
        self.v_local = conv_bn(1024, 1024, 3, groups=1024)
        self.talking_head1 = nn.Conv2d(HEADS, HEADS, 1)
        self.talking_head2 = nn.Conv2d(HEADS, HEADS, 1)
        self.proj = nn.Sequential(nn.GELU(), *conv_bn(1024, channels))

    def forward(self, x):
        small = self.stride_conv(x) if hasattr(self, 'stride_conv') else x
        query, key, value = self.q(small), self.k(small), self.v(small)
        scores = self.talking_head1(self.weights(heads_of(query), heads_of(key))[None])
        weights = self.talking_head2(scores.softmax(dim=-1))[0]
        mixed = (weights @ heads_of(value)).transpose(1, 2).reshape(value.shape)
        mixed = mixed + self.v_local(value)
        if small is not x:
            mixed = F.interpolate(mixed, scale_factor=2, mode='bilinear')
        return self.proj(mixed)


class Query(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.local = nn.Sequential(nn.Conv2d(channels, channels, 3, 2, 1, groups=channels))
        self.proj = conv_bn(channels, 128)

    def forward(self, x):
        return self.proj(self.local(x) + x[:, :, ::2, ::2])


class DownAttention(Biased):
    def __init__(self, before, after, side):
        super().__init__(side, side // 2)
        self.q = Query(before)
        self.k = conv_bn(before, 128)
        self.v = conv_bn(before, 512)
        self.v_local = conv_bn(512, 512, 3, 2, 512)
        self.proj = nn.Sequential(nn.GELU(), *conv_bn(512, after))

    def forward(self, x):
        value = self.v(x)
        local = self.v_local(value)
        weights = self.weights(heads_of(self.q(x)), heads_of(self.k(x))).softmax(dim=-1)
        mixed = (weights @ heads_of(value)).transpose(1, 2).reshape(local.shape)
        return self.proj(mixed + local)


class Down(nn.Module):
    def __init__(self, before, after, side=None):
        super().__init__()
        if side is None:
            self.proj, self.norm = conv_bn(before, after, 3, 2)
        else:
            self.attn = DownAttention(before, after, side)
            self.conv, self.bn = conv_bn(before, after, 3, 2)

    def forward(self, x):
        if hasattr(self, 'attn'):
            return self.attn(x) + self.bn(self.conv(x))
        return self.norm(self.proj(x))


class Mlp(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.fc1, self.norm1 = conv_bn(channels, hidden)
        self.mid, self.mid_norm = conv_bn(hidden, hidden, 3, groups=hidden)
        self.fc2, self.norm2 = conv_bn(hidden, channels)

    def forward(self, x):
        x = F.gelu(self.norm1(self.fc1(x)))
        return self.norm2(self.fc2(F.gelu(self.mid_norm(self.mid(x)))))


class Block(nn.Module):
    def __init__(self, channels, expansion, attention=None):
        super().__init__()
        if attention is not None:
            self.token_mixer = attention
            self.layer_scale_1 = nn.Parameter(torch.ones(channels, 1, 1))
        self.mlp = Mlp(channels, expansion * channels)
        self.layer_scale_2 = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        if hasattr(self, 'token_mixer'):
            x = x + self.layer_scale_1 * self.token_mixer(x)
        return x + self.layer_scale_2 * self.mlp(x)


class Backbone(nn.Module):
    """Maps at strides 4, 8, 16 and 32 of an image whose sides are multiples of 32."""

    def __init__(self, arch: str, resolution: int):
        super().__init__()
        channels, depths, attended, narrow = SIZES[arch]
        half = channels[0] // 2
        self.patch_embed = nn.Sequential(
            *conv_bn(3, half, 3, 2), nn.GELU(), *conv_bn(half, channels[0], 3, 2), nn.GELU()
        )
        sides = [math.ceil(resolution / stride) for stride in (4, 8, 16, 32)]
        self.network = nn.ModuleList()
        for index, (width, depth) in enumerate(zip(channels, depths, strict=True)):
            if index:
                self.network.append(
                    Down(channels[index - 1], width, sides[2] if index == 3 else None)
                )
            attention = partial(Attention, width, sides[index], 2 if index == 2 else 1)
            self.network.append(nn.Sequential(*(
                Block(
                    width,
                    3 if index >= 2 and number in narrow[index - 2] else 4,
                    attention() if index >= 2 and number >= depth - attended else None,
                )
                for number in range(depth)
            )))  # fmt: skip

    def forward(self, x):
        x = self.patch_embed(x)
        maps = []
        for index, step in enumerate(self.network):
            x = step(x)
            if index % 2 == 0:
                maps.append(x)
        return maps


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
    """Tables for 800 x 800."""

    def __init__(self, arch: str):
        super().__init__()
        self.backbone = Backbone(arch, 800)
        self.neck = Pyramid(SIZES[arch][0], pooled=True)

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
    """Tables for 512 x 512; 150 classes."""

    def __init__(self, arch: str):
        super().__init__()
        self.backbone = Backbone(arch, 512)
        self.neck = Pyramid(SIZES[arch][0], pooled=False)
        self.decode_head = SemanticHead(150)

    def trunk(self, pixels: Tensor) -> Tensor:
        return self.decode_head(self.neck(self.backbone((pixels - shvit.MEAN) / shvit.STD)))

    @torch.no_grad()
    def segment(self, pixels: Tensor) -> Tensor:
        """(1, 3, H, W) RGB from 0 to 255 -> logits of (150, H, W)."""
        return F.interpolate(self.trunk(pixels), pixels.shape[2:], mode='bilinear')[0]


RELEASES: dict[str, Callable[[], nn.Module]] = {
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
            if name.endswith('attention_biases_seg'):
                parameter.normal_(0, 2)
            elif 'layer_scale' in name:
                parameter.uniform_(0.1, 0.5)
        for norm in norms:
            norm.momentum = 1.0
        network.train()
        network.trunk(pixels)
        for norm in norms:  # channels that hardly vary would amplify rounding
            norm.running_var.clamp_(min=0.1)
    return network.eval()
