"""EfficientFormerV2's Mask R-CNN and Semantic FPN, with the authors' keys.

The backbone is timm's with the authors' tables of biases, the rest is that of mmdet's and mmseg's
own configs.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from tests.released import files

CHANNELS = {'s2': [32, 64, 144, 288], 'l': [40, 80, 192, 384]}


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


def network(package: str, config: str, arch: str, resolution: int = 512) -> nn.Module:
    backbone = dict(type=Backbone, arch=arch, resolution=resolution)
    return files.build_theirs(package, config, backbone, dict(in_channels=CHANNELS[arch]))


RELEASES: dict[str, Callable[..., nn.Module]] = {
    'maskrcnn_efficientformerv2_s2': partial(network, 'mmdet', files.MASK_RCNN, 's2'),
    'maskrcnn_efficientformerv2_l': partial(network, 'mmdet', files.MASK_RCNN, 'l'),
    'semfpn_efficientformerv2_s2_ade20k': partial(network, 'mmseg', files.SEMANTIC_FPN, 's2'),
    'semfpn_efficientformerv2_l_ade20k': partial(network, 'mmseg', files.SEMANTIC_FPN, 'l'),
}


def with_random_weights(network: nn.Module, data: dict) -> nn.Module:
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
            norm.train()
        network.test_step(data)
        for norm in norms:  # channels that hardly vary would amplify rounding
            norm.running_var.clamp_(min=0.1)
    return network.eval()
