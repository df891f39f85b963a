"""DeiT: sizes, positions, both attentions."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from mmeffvit.analysis.attention import Canvas, record_attention
from mmeffvit.models import DeiT, DeiTMobiAtt
from mmeffvit.models.deit.backbone import resize_positions
from mmeffvit.models.mobile_attention.mixers import MIXERS
from tests.models.checkpoints.spelling import official_state
from tests.models.declared import DEIT as TINY
from tests.models.parity import assert_same_maps, load_from, randomized

official = partial(official_state, name='deit_tiny_distilled_patch16_224')


def test_an_image_is_padded_to_whole_patches_as_by_timm(timm, tmp_path):
    theirs = randomized(timm.create_model('deit_tiny_patch16_224', img_size=(112, 176)))
    ours = load_from(DeiT('t', resolution=(112, 176)), theirs, tmp_path)
    x = torch.randn(1, 3, 97, 161)
    padded = F.pad(x, (0, 15, 0, 15))
    assert_same_maps(lambda _: ours(x), theirs, padded, [2, 5, 8, 11])


def test_positions_are_resized_like_an_image_and_kept_at_their_own_size():
    positions = torch.randn(1, 1 + 3 * 4, 5)
    assert torch.equal(resize_positions(positions, (3, 4), (3, 4)), positions)
    resized = resize_positions(positions, (3, 4), (7, 9))
    assert torch.equal(resized[:, :1], positions[:, :1])
    for channel in range(5):
        image = positions[0, 1:, channel].view(1, 1, 3, 4)
        expected = F.interpolate(image, (7, 9), mode='bicubic', align_corners=False)
        torch.testing.assert_close(resized[0, 1:, channel], expected.flatten())


@torch.no_grad()
@pytest.mark.parametrize('name', [name for name in MIXERS if name != 'eva'])
def test_every_mixer_takes_the_class_token_as_one_more_token(name):
    arch = dict(TINY, channels=24, heads=2)
    backbone = randomized(DeiT(arch, attention=name)).eval()
    mixer = backbone.stages[0].blocks[0].attention
    x = torch.randn(1, 1 + 12, 24)
    query, key, value = (m.transpose(1, 2)[..., None] for m in mixer.qkv(x).chunk(3, dim=2))
    expected = mixer.proj(mixer.mix(query, key, value)[..., 0].transpose(1, 2))
    torch.testing.assert_close(mixer(x, (4, 3)), expected)
    before = backbone(torch.ones(1, 3, 64, 48))
    backbone.stem.class_token += 1
    changes = [
        not a.equal(b) for a, b in zip(before, backbone(torch.ones(1, 3, 64, 48)), strict=True)
    ]
    assert changes == [name not in ('head_softmax', 'head_linear')] * 4  # these mix no tokens


@torch.no_grad()
def test_maps_of_a_mixer_are_those_of_the_cells():
    backbone = randomized(DeiTMobiAtt(TINY, attention=dict(type='mobile', head_channels=8))).eval()
    with record_attention(backbone, Canvas(64, 48, (20, 40)), ['stages.1']) as readings:
        backbone(torch.randn(1, 3, 64, 48))
    (name,) = readings
    assert name == 'stages.1.blocks.0.attention'
    assert readings[name].arrays['competed'].shape == (2, 4, 3)


@torch.no_grad()
@pytest.mark.parametrize('resolution', [224, 64])
@pytest.mark.parametrize('layout', [official, DeiT.state_dict], ids=['official', 'ours'])
@pytest.mark.parametrize('given', [2, 1, 0])
def test_weights_load_into_a_backbone_with_fewer_class_tokens(given, layout, resolution, tmp_path):
    source = DeiT(TINY, class_tokens=given, resolution=224 if layout is official else resolution)
    torch.nn.init.normal_(source.stem.positions)
    torch.save({'model': layout(source)}, tmp_path / 'weights.pth')
    for kept in range(given + 1):
        backbone = DeiT(TINY, class_tokens=kept, resolution=resolution)
        backbone.load_pretrained(tmp_path / 'weights.pth')
        positions, expected = backbone.stem.positions, source.stem.positions
        assert torch.equal(positions[:, :kept], expected[:, :kept])
        if expected.shape[1] - given == positions.shape[1] - kept:
            assert torch.equal(positions[:, kept:], expected[:, given:])
        if kept:
            assert torch.equal(backbone.stem.class_token, source.stem.class_token)
