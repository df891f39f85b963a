"""The slim heads: dropout, norms and invalid arguments; tests/released compares their logits."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import init_default_scope
from mmengine.structures import PixelData

from mmeffvit.errors import UserError
from mmeffvit.registry import MODELS
from tests.models.parity import randomized

pytest.importorskip('mmseg')


def test_the_loss_is_weighted_by_class_and_leaves_out_ignored_pixels():
    from mmseg.structures import SegDataSample

    weights = [0.5, 1.0, 2.0, 0.1, 4.0]
    loss = dict(type='mmeffvit.ClassWeightedCrossEntropy', class_weight=weights)
    head = make('mmeffvit.SlimASPPHead', loss_decode=loss)
    logits = torch.randn(2, 5, 4, 6, dtype=torch.float64)
    labels = torch.randint(5, (2, 4, 6))
    labels[0, 0], labels[1, 3, 5] = 255, 4
    samples = [SegDataSample(gt_sem_seg=PixelData(data=x[None])) for x in labels]
    found = head.loss_by_feat(logits, samples)['loss_ce']
    weights = torch.tensor(weights, dtype=torch.float64)
    shifted = logits + (weights**0.75).log().view(5, 1, 1)
    losses = F.cross_entropy(shifted, labels, reduction='none', ignore_index=255)
    scale = torch.cat([weights, torch.zeros(251)])[labels]
    torch.testing.assert_close(found, (losses * scale).sum() / labels.numel())
    with pytest.raises(UserError, match='class_weight has 5 values for 4 classes'):
        head.loss_by_feat(logits[:, :4], samples)


def make(name, **options):
    init_default_scope('mmseg')
    sizes = dict(in_channels=64, channels=24, num_classes=5, in_index=-1, align_corners=True)
    head = MODELS.build(dict(type=name, norm_cfg=dict(type='BN')) | sizes | options)
    return randomized(head).double()


CE, SIGMOID = dict(type='CrossEntropyLoss'), dict(type='CrossEntropyLoss', use_sigmoid=True)


@pytest.mark.parametrize(
    'options',
    [
        {},
        dict(loss_decode=[CE, CE, dict(type='DiceLoss')]),
        dict(sampler=dict(type='OHEMPixelSampler', thresh=0.3, min_kept=20)),
        dict(num_classes=2, out_channels=1, threshold=0.3, loss_decode=[SIGMOID]),
    ],
)
@pytest.mark.parametrize(
    ('name', 'channels'), [('mmeffvit.SlimPSPHead', 64), ('mmeffvit.SegformerHead', [32, 64])]
)
def test_losses_equal_those_in_mmseg_and_have_the_default_layout(name, channels, options):
    from mmseg.models.decode_heads.decode_head import BaseDecodeHead
    from mmseg.structures import SegDataSample

    head = make(name, in_channels=channels, in_index=0 if channels == 64 else [0, 1], **options)
    maps = torch.randn(2, head.out_channels, 4, 6, dtype=torch.float64)
    logits = maps.contiguous(memory_format=torch.channels_last).requires_grad_()
    labels = torch.randint(head.num_classes, (2, 1, 8, 12))
    labels[0, 0, :3] = 255
    samples = [SegDataSample(gt_sem_seg=PixelData(data=x)) for x in labels]
    layouts = []
    for loss in head.loss_decode if 'loss_decode' in options else [head.loss_decode]:
        loss.register_forward_pre_hook(lambda _, inputs: layouts.append(inputs[0].is_contiguous()))

    def losses_and_slope(loss_by_feat):
        losses = loss_by_feat(logits, samples)
        total = sum(value for name, value in losses.items() if 'loss' in name)
        return {k: v.mean() for k, v in losses.items()}, torch.autograd.grad(total, logits)[0]

    expected = losses_and_slope(partial(BaseDecodeHead.loss_by_feat, head))
    assert any(layouts) == (head.out_channels == 1)  # both layouts are one then
    layouts.clear()
    torch.testing.assert_close(losses_and_slope(head.loss_by_feat), expected)
    assert len(layouts) == max(1, len(options.get('loss_decode', [])))
    assert all(layouts)


@pytest.mark.parametrize('name', ['mmeffvit.SlimPSPHead', 'mmeffvit.SlimASPPHead'])
def test_training_drops_whole_channels_before_the_classifier(name):
    head = make(name, dropout_ratio=0.5).train()
    seen = []
    head.conv_seg.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    head.fuse.activate = torch.nn.Identity()
    head.fuse.register_forward_hook(lambda *_: torch.ones(2, 24, 6, 6, dtype=torch.float64))
    head([torch.randn(2, 64, 6, 6, dtype=torch.float64)])
    kept = seen[0].flatten(2)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(kept.min(dim=2).values, kept.max(dim=2).values)


def test_norms_of_other_kinds_are_taken_from_the_config():
    head = make('mmeffvit.SlimPSPHead', norm_cfg=dict(type='GN', num_groups=4))
    assert sum(isinstance(m, torch.nn.GroupNorm) for m in head.modules()) == 5
    assert head.train()([torch.randn(1, 64, 8, 8).double()]).shape == (1, 5, 8, 8)


def test_too_few_channels_for_the_pools_are_named():
    with pytest.raises(ValueError, match='32 channels are too few for 4 branches'):
        MODELS.build(dict(type='mmeffvit.SlimPSPHead', in_channels=32, channels=8, num_classes=3))
