"""Key tables, tested without weights."""

import re

import pytest

from mmeffvit.backbones import SwiftFormer, shvit
from mmeffvit.backbones.swiftformer import VARIANTS
from mmeffvit.checkpoints import CheckpointError, rename
from mmeffvit.checkpoints import shvit as shvit_tables
from mmeffvit.checkpoints.rename import recognise
from mmeffvit.checkpoints.swiftformer import LAYOUTS, OFFICIAL, TIMM


def official_key(key: str) -> str:
    """Our key in the official spelling, written apart from the table it tests."""
    part, *rest = key.split('.')
    if part == 'stem':
        index = {('0', 'conv'): 0, ('0', 'norm'): 1, ('1', 'conv'): 3, ('1', 'norm'): 4}
        return f'patch_embed.{index[rest[0], rest[1]]}.{rest[2]}'
    if part == 'output_norms':
        return '.'.join([f'norm{2 * int(rest[0])}', *rest[1:]])
    stage, kind, *rest = rest
    if kind == 'downsample':
        name = {'conv': 'proj', 'norm': 'norm'}[rest[0]]
        return f'network.{2 * int(stage) - 1}.{name}.{rest[1]}'
    return f'network.{2 * int(stage)}.' + '.'.join(official_block(rest))


def official_block(parts: list[str]) -> list[str]:
    index, *inner = parts
    tail = '.'.join(inner)
    spelled = {
        'attention.score.weight': 'attn.w_g',
        'attention_scale.scale': 'layer_scale_1',
        'feed_forward_scale.scale': 'layer_scale_2',
        'layer_scale.scale': 'layer_scale',
        'local_representation.layer_scale.scale': 'local_representation.layer_scale',
    }
    if tail in spelled:
        return [index, spelled[tail]]
    heads = {
        'attention.query': 'attn.to_query',
        'attention.key': 'attn.to_key',
        'attention.proj': 'attn.Proj',
        'attention.out': 'attn.final',
        'feed_forward.norm': 'linear.norm1',
        'feed_forward.expand': 'linear.fc1',
        'feed_forward.project': 'linear.fc2',
    }
    head, _, leaf = tail.rpartition('.')
    if head in heads:
        return [index, heads[head], leaf]
    words = {'depthwise': 'dwconv', 'expand': 'pwconv1', 'project': 'pwconv2'}
    return [index, *(words.get(word, word) for word in inner)]


@pytest.mark.parametrize('arch', VARIANTS)
def test_the_official_table_is_a_bijection_onto_our_keys(arch):
    ours = SwiftFormer(arch).state_dict().keys()
    official = [official_key(key) for key in ours]
    heads = ['norm.weight', 'head.weight', 'head.bias', 'dist_head.weight', 'dist_head.bias']
    renamed, dropped = rename([*official, *heads], OFFICIAL)
    assert list(renamed.values()) == list(ours)
    assert dropped == heads


@pytest.mark.parametrize('arch', VARIANTS)
def test_the_timm_table_is_a_bijection_onto_our_keys(timm, arch):
    theirs = timm.create_model(f'swiftformer_{arch}').state_dict()
    renamed, dropped = rename(theirs, TIMM)
    ours = SwiftFormer(arch, output_norm=False).state_dict()
    assert set(renamed.values()) == set(ours)
    assert {key.split('.')[0] for key in dropped} == {'norm', 'head', 'head_dist'}


def test_markers_tell_the_layouts_apart(timm):
    keys = {
        'official': [official_key(key) for key in SwiftFormer('xs').state_dict()],
        'timm': list(timm.create_model('swiftformer_xs').state_dict()),
        'mmeffvit': list(SwiftFormer('xs').state_dict()),
    }
    for name, spelled in keys.items():
        assert [layout.name for layout in LAYOUTS if recognise(spelled, [layout])] == [name]


def test_two_keys_may_not_become_one():
    with pytest.raises(CheckpointError, match=r"'x\.bias'"):
        rename(['a.bias', 'b.bias'], ((r'^[ab]\.', 'x.'),))


def official_shvit_key(key: str) -> str:
    """Timm's key of an SHViT in the official spelling, written apart from the tables."""
    match = re.match(r'stages\.(\d)\.(downsample|blocks)\.(\d+)\.(.*)', key)
    if match is None:
        return key
    stage, kind, index, tail = int(match[1]), match[2], int(match[3]), match[4]
    if kind == 'blocks':
        return f'blocks{stage + 1}.{index + (3 if stage else 0)}.{tail}'
    place = {0: '0.0', 1: '0.1', 2: '1', 3: '2.0', 4: '2.1'}[index]
    return f'blocks{stage + 1}.{place}.{tail}'


@pytest.mark.parametrize('arch', shvit.VARIANTS)
def test_both_tables_of_shvit_are_bijections_onto_our_keys(timm, arch):
    theirs = list(timm.create_model(f'shvit_{arch}').state_dict())
    ours = list(shvit.SHViT(arch).state_dict())
    from_timm, dropped = rename(theirs, shvit_tables.TIMM)
    assert sorted(from_timm.values()) == sorted(ours)
    assert {key.split('.')[0] for key in dropped} == {'head'}
    official = [official_shvit_key(key) for key in theirs]
    from_official, _ = rename(official, shvit_tables.OFFICIAL)
    assert list(from_official.values()) == list(from_timm.values())
    spelled = {'official': official, 'timm': theirs, 'mmeffvit': ours}
    for name, keys in spelled.items():
        layouts = shvit_tables.LAYOUTS
        assert [layout.name for layout in layouts if recognise(keys, [layout])] == [name]
