"""Keys of the official releases, spelled from other keys apart from the tables they test."""

import re
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints import rename
from tests.models.declared import DECLARED

Rules = list[tuple[str, str | Callable[[re.Match], str]]]

LAST_ENCODER = {'2': 2, '3': 4, '4': 3}  # by stage counted from 0: encoders before the last norm


# from timm's spelling to the official one; the first rule that matches a whole key is the one
SWIFTFORMER: Rules = [
    (r'stem\.(.*)', r'patch_embed.\1'),
    (r'stages\.(\d)\.downsample\.(.*)', lambda m: f'network.{2 * int(m[1]) - 1}.{m[2]}'),
    (r'stages\.(\d)\.blocks\.(.*)\.attn\.proj\.(\w+)',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.attn.Proj.{m[3]}'),
    (r'stages\.(\d)\.blocks\.(.*?)(?:\.gamma)?', lambda m: f'network.{2 * int(m[1])}.{m[2]}'),
    (r'head_dist\.(.*)', r'dist_head.\1'),
    (r'((?:norm|head)\..*)', r'\1'),
]  # fmt: skip
SHVIT: Rules = [
    (r'stages\.0\.blocks\.(.*)', r'blocks1.\1'),
    (r'stages\.(\d)\.blocks\.(\d+)\.(.*)',
     lambda m: f'blocks{int(m[1]) + 1}.{int(m[2]) + 3}.{m[3]}'),
    (r'stages\.(\d)\.downsample\.([01])\.(.*)', lambda m: f'blocks{int(m[1]) + 1}.0.{m[2]}.{m[3]}'),
    (r'stages\.(\d)\.downsample\.2\.(.*)', lambda m: f'blocks{int(m[1]) + 1}.1.{m[2]}'),
    (r'stages\.(\d)\.downsample\.([34])\.(.*)',
     lambda m: f'blocks{int(m[1]) + 1}.2.{int(m[2]) - 3}.{m[3]}'),
    (r'((?:patch_embed|head)\..*)', r'\1'),
]  # fmt: skip
CVNETS_CONV = {'conv1_1x1': 'exp_1x1', 'conv2_kxk': 'conv_3x3', 'conv3_1x1': 'red_1x1'}
CVNETS_LAYER = {'conv': 'conv', 'bn': 'norm'}
MOBILEVITV2: Rules = [
    (r'stem\.(conv|bn)\.(.*)', lambda m: f'conv_1.block.{CVNETS_LAYER[m[1]]}.{m[2]}'),
    (r'stages\.(\d)\.(\d)\.(conv\d_\w+)\.(conv|bn)\.(.*)',
     lambda m: f'layer_{int(m[1]) + 1}.{m[2]}.block.{CVNETS_CONV[m[3]]}.block.'
               f'{CVNETS_LAYER[m[4]]}.{m[5]}'),
    (r'stages\.(\d)\.1\.conv_kxk\.(conv|bn)\.(.*)',
     lambda m: f'layer_{int(m[1]) + 1}.1.local_rep.0.block.{CVNETS_LAYER[m[2]]}.{m[3]}'),
    (r'stages\.(\d)\.1\.conv_1x1\.weight',
     lambda m: f'layer_{int(m[1]) + 1}.1.local_rep.1.block.conv.weight'),
    (r'stages\.(\d)\.1\.conv_proj\.(conv|bn)\.(.*)',
     lambda m: f'layer_{int(m[1]) + 1}.1.conv_proj.block.{CVNETS_LAYER[m[2]]}.{m[3]}'),
    (r'stages\.(\d)\.1\.norm\.(\w+)',
     lambda m: f'layer_{int(m[1]) + 1}.1.global_rep.{LAST_ENCODER[m[1]]}.{m[2]}'),
    (r'stages\.(\d)\.1\.transformer\.(\d)\.norm1\.(\w+)',
     lambda m: f'layer_{int(m[1]) + 1}.1.global_rep.{m[2]}.pre_norm_attn.0.{m[3]}'),
    (r'stages\.(\d)\.1\.transformer\.(\d)\.attn\.(\w+)\.(\w+)',
     lambda m: f'layer_{int(m[1]) + 1}.1.global_rep.{m[2]}.pre_norm_attn.1.{m[3]}'
               f'.block.conv.{m[4]}'),
    (r'stages\.(\d)\.1\.transformer\.(\d)\.norm2\.(\w+)',
     lambda m: f'layer_{int(m[1]) + 1}.1.global_rep.{m[2]}.pre_norm_ffn.0.{m[3]}'),
    (r'stages\.(\d)\.1\.transformer\.(\d)\.mlp\.fc([12])\.(\w+)',
     lambda m: f'layer_{int(m[1]) + 1}.1.global_rep.{m[2]}.pre_norm_ffn.{2 * int(m[3]) - 1}'
               f'.block.conv.{m[4]}'),
    (r'head\.fc\.(\w+)', r'classifier.1.\1'),
]  # fmt: skip
CONV_NORM = {'conv': '0', 'bn': '1'}
MLP = {'fc1': 'norm1', 'mid': 'mid_norm', 'fc2': 'norm2'}
EFFICIENTFORMERV2: Rules = [
    (r'stem\.conv([12])\.(conv|bn)\.(.*)',
     lambda m: f'patch_embed.{3 * (int(m[1]) - 1) + int(CONV_NORM[m[2]])}.{m[3]}'),
    (r'stages\.([12])\.downsample\.conv\.(conv|bn)\.(.*)',
     lambda m: f'network.{2 * int(m[1]) - 1}.{dict(conv="proj", bn="norm")[m[2]]}.{m[3]}'),
    (r'stages\.3\.downsample\.conv\.(.*)', r'network.5.\1'),
    (r'stages\.3\.downsample\.attn\.q\.local\.(\w+)', r'network.5.attn.q.local.0.\1'),
    (r'stages\.3\.downsample\.(attn\.(?:k|v|v_local|q\.proj))\.(conv|bn)\.(.*)',
     lambda m: f'network.5.{m[1]}.{CONV_NORM[m[2]]}.{m[3]}'),
    (r'stages\.3\.downsample\.attn\.proj\.(conv|bn)\.(.*)',
     lambda m: f'network.5.attn.proj.{int(CONV_NORM[m[1]]) + 1}.{m[2]}'),
    (r'stages\.3\.downsample\.(attn\.attention_biases)', r'network.5.\1'),
    (r'stages\.(\d)\.blocks\.(\d+)\.ls([12])\.gamma',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.layer_scale_{m[3]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.mlp\.(\w+)\.conv\.(\w+)',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.mlp.{m[3]}.{m[4]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.mlp\.(\w+)\.bn\.(\w+)',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.mlp.{MLP[m[3]]}.{m[4]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.token_mixer\.(q|k|v|v_local|stride_conv)\.(conv|bn)\.(\w+)',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.token_mixer.{m[3]}.{CONV_NORM[m[4]]}.{m[5]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.token_mixer\.proj\.(conv|bn)\.(\w+)',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.token_mixer.proj.'
               f'{int(CONV_NORM[m[3]]) + 1}.{m[4]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.(token_mixer\.(?:talking_head[12]\.\w+|attention_biases))',
     lambda m: f'network.{2 * int(m[1])}.{m[2]}.{m[3]}'),
    (r'head_dist\.(.*)', r'dist_head.\1'),
    (r'((?:norm|head)\..*)', r'\1'),
]  # fmt: skip
PVTV2: Rules = [
    (r'patch_embed\.(.*)', r'patch_embed1.\1'),
    (r'stages\.(\d)\.downsample\.(.*)', lambda m: f'patch_embed{int(m[1]) + 1}.{m[2]}'),
    (r'stages\.(\d)\.blocks\.(\d+)\.mlp\.dwconv\.(\w+)',
     lambda m: f'block{int(m[1]) + 1}.{m[2]}.mlp.dwconv.dwconv.{m[3]}'),
    (r'stages\.(\d)\.blocks\.(.*)', lambda m: f'block{int(m[1]) + 1}.{m[2]}'),
    (r'stages\.(\d)\.norm\.(\w+)', lambda m: f'norm{int(m[1]) + 1}.{m[2]}'),
    (r'head\.(.*)', r'head.\1'),
]  # fmt: skip
DEIT: Rules = [(r'(.*)', r'\1')]  # timm has kept the official keys
RULES = {
    'deit': DEIT,
    'pvt_v2': PVTV2,
    'swiftformer': SWIFTFORMER,
    'shvit': SHVIT,
    'mobilevitv2': MOBILEVITV2,
    'efficientformerv2': EFFICIENTFORMERV2,
}


def official_keys(family: str, timm_keys: Iterable[str]) -> dict[str, str]:
    """The official spelling of every key of timm's model."""
    spelled = {}
    for key in timm_keys:
        matches = ((re.fullmatch(pattern, key), made) for pattern, made in RULES[family])
        match, made = next((m, made) for m, made in matches if m)
        spelled[key] = made(match) if callable(made) else match.expand(made)
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
