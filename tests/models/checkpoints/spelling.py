"""Keys of the official releases, spelled from other keys apart from the tables they test."""

import re
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints import rename
from tests.models.declared import DECLARED

Rules = list[tuple[str, str | Callable[[re.Match], str]]]

# from timm's spelling to the official one, one after the other
SWIFTFORMER: Rules = [
    (r'^stem', 'patch_embed'),
    (r'^stages\.(\d)\.downsample', lambda m: f'network.{2 * int(m[1]) - 1}'),
    (r'^stages\.(\d)\.blocks', lambda m: f'network.{2 * int(m[1])}'),
    (r'\.attn\.proj', '.attn.Proj'),
    (r'\.gamma$', ''),
    (r'^head_dist', 'dist_head'),
]
SHVIT: Rules = [
    (r'^stages\.0\.blocks', 'blocks1'),
    (r'^stages\.(\d)\.blocks\.(\d+)', lambda m: f'blocks{int(m[1]) + 1}.{int(m[2]) + 3}'),
    (r'^stages\.(\d)\.downsample\.([01])', lambda m: f'blocks{int(m[1]) + 1}.0.{m[2]}'),
    (r'^stages\.(\d)\.downsample\.2', lambda m: f'blocks{int(m[1]) + 1}.1'),
    (r'^stages\.(\d)\.downsample\.3', lambda m: f'blocks{int(m[1]) + 1}.2.0'),
    (r'^stages\.(\d)\.downsample\.4', lambda m: f'blocks{int(m[1]) + 1}.2.1'),
]
LAST_ENCODER = {'3': 2, '4': 4, '5': 3}  # by layer: encoders before the last norm
MOBILEVITV2: Rules = [
    (r'^stem', 'conv_1'),
    (r'^stages\.(\d)', lambda m: f'layer_{int(m[1]) + 1}'),
    (r'^layer_(\d)\.1\.norm', lambda m: f'layer_{m[1]}.1.global_rep.{LAST_ENCODER[m[1]]}'),
    (r'\.conv1_1x1', '.block.exp_1x1'),
    (r'\.conv2_kxk', '.block.conv_3x3'),
    (r'\.conv3_1x1', '.block.red_1x1'),
    (r'\.conv_kxk', '.local_rep.0'),
    (r'\.conv_1x1', '.local_rep.1.conv'),
    (r'\.conv\.(?=\w+$)', '.block.conv.'),
    (r'\.bn\.', '.block.norm.'),
    (r'\.transformer', '.global_rep'),
    (r'\.norm1', '.pre_norm_attn.0'),
    (r'\.norm2', '.pre_norm_ffn.0'),
    (r'\.attn\.(\w+)', r'.pre_norm_attn.1.\1.block.conv'),
    (r'\.mlp\.fc1', '.pre_norm_ffn.1.block.conv'),
    (r'\.mlp\.fc2', '.pre_norm_ffn.3.block.conv'),
    (r'^head\.fc', 'classifier.1'),
]
EFFICIENTFORMERV2: Rules = [
    (r'^stem\.conv1', 'patch_embed'),
    (r'^stem\.conv2\.conv', 'patch_embed.3'),
    (r'^stem\.conv2\.bn', 'patch_embed.4'),
    (r'^stages\.([12])\.downsample\.conv\.conv', lambda m: f'network.{2 * int(m[1]) - 1}.proj'),
    (r'^stages\.([12])\.downsample\.conv\.bn', lambda m: f'network.{2 * int(m[1]) - 1}.norm'),
    (r'^stages\.3\.downsample\.conv\.', 'network.5.downsampled_'),
    (r'^stages\.3\.downsample', 'network.5'),
    (r'^stages\.(\d)\.blocks', lambda m: f'network.{2 * int(m[1])}'),
    (r'\.ls([12])\.gamma', r'.layer_scale_\1'),
    (r'(\.mlp\.\w+)\.conv', r'\1'),
    (r'\.fc([12])\.bn', r'.norm\1'),
    (r'\.mid\.bn', '.mid_norm'),
    (r'\.q\.local', '.q.local.0'),
    (r'(attn|mixer)\.proj\.conv', r'\1.proj.1'),
    (r'(attn|mixer)\.proj\.bn', r'\1.proj.2'),
    (r'\.conv(?=\.\w+$)', '.0'),
    (r'\.bn(?=\.\w+$)', '.1'),
    (r'downsampled_', ''),
    (r'^head_dist', 'dist_head'),
]
PVTV2: Rules = [
    (r'^patch_embed', 'patch_embed1'),
    (r'^stages\.(\d)\.downsample', lambda m: f'patch_embed{int(m[1]) + 1}'),
    (r'^stages\.(\d)\.blocks', lambda m: f'block{int(m[1]) + 1}'),
    (r'\.dwconv', '.dwconv.dwconv'),
    (r'^stages\.(\d)\.norm', lambda m: f'norm{int(m[1]) + 1}'),
]
RULES = {
    'deit': [],  # timm has kept the official keys
    'pvt_v2': PVTV2,
    'swiftformer': SWIFTFORMER,
    'shvit': SHVIT,
    'mobilevitv2': MOBILEVITV2,
    'efficientformerv2': EFFICIENTFORMERV2,
}


def official_keys(family: str, timm_keys: Iterable[str]) -> dict[str, str]:
    """The official spelling of every key of timm's model."""
    spelled = {key: key for key in timm_keys}
    for pattern, made in RULES[family]:
        spelled = {key: re.sub(pattern, made, official) for key, official in spelled.items()}
    return spelled


def official_state(backbone: Backbone, name: str) -> dict[str, Tensor]:
    """The weights of a backbone of ours by the official keys of a model with a name of timm."""
    import timm

    with torch.device('meta'):
        theirs = timm.create_model(name).state_dict()
    family = type(backbone)
    (table,) = (layout.table for layout in family.layouts if layout.name == 'official')
    renamed, _ = rename(official_keys(DECLARED[family.__name__].timm, theirs).values(), table)
    state = backbone.state_dict()
    return {official: state[key] for official, key in renamed.items() if key in state}
