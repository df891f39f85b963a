"""The slim heads: naive versions of their equations, sizes and invalid arguments."""

import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import init_default_scope
from mmengine.structures import PixelData

from mmeffvit.registry import MODELS

pytest.importorskip('mmseg')


def test_the_loss_is_weighted_by_class_and_leaves_out_ignored_pixels():
    from mmseg.structures import SegDataSample

    weights = [0.5, 1.0, 2.0, 0.0, 4.0]
    head = make(
        'mmeffvit.SlimASPPHead', sampler=dict(type='mmeffvit.ClassWeights', weights=weights)
    )
    logits = torch.randn(2, 5, 4, 6, dtype=torch.float64)
    labels = torch.randint(5, (2, 4, 6))
    labels[0, 0], labels[1, 3, 5] = 255, 4
    samples = [SegDataSample(gt_sem_seg=PixelData(data=x[None])) for x in labels]
    found = head.loss_by_feat(logits, samples)['loss_ce']
    losses = F.cross_entropy(logits, labels, reduction='none', ignore_index=255)
    scale = torch.tensor([*weights, *[0.0] * 251], dtype=torch.float64)[labels]
    torch.testing.assert_close(found, (losses * scale).sum() / labels.numel())


def make(name, **options):
    init_default_scope('mmseg')
    sizes = dict(in_channels=64, channels=24, num_classes=5, in_index=-1)
    head = MODELS.build(
        dict(type=name, **sizes, norm_cfg=dict(type='BN'), align_corners=True, **options)
    )
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    for module in head.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return head.double().eval()


def conv_norm_relu(block, x, **spatial):
    x = F.conv2d(x, block.conv.weight, **spatial)
    norm = block.bn
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    x = (x - norm.running_mean[:, None, None]) * scale[:, None, None] + norm.bias[:, None, None]
    return x.clamp(min=0)


def mean_of_cell(x, size, row, column):
    """Grid cells cover the map; they overlap where its sides are not divisible."""
    height, width = x.shape[2:]
    rows = slice(row * height // size, -(-(row + 1) * height // size))
    columns = slice(column * width // size, -(-(column + 1) * width // size))
    return x[:, :, rows, columns].mean(dim=(2, 3))


def resize_corners(x, height, width):
    """Bilinear interpolation with aligned corners."""
    rows = torch.arange(height).double() * (x.shape[2] - 1) / (height - 1)
    columns = torch.arange(width).double() * (x.shape[3] - 1) / (width - 1)
    for dim, places in ((2, rows), (3, columns)):
        low = places.floor().long()
        high = (low + 1).clamp(max=x.shape[dim] - 1)
        part = (places - low).reshape([-1 if i == dim else 1 for i in range(4)])
        x = x.index_select(dim, low) * (1 - part) + x.index_select(dim, high) * part
    return x


@pytest.mark.parametrize('size', [(12, 18), (7, 9)])
def test_the_pyramid_head_is_its_equation(size):
    head = make('mmeffvit.SlimPSPHead')
    x = torch.randn(2, 64, *size, dtype=torch.float64)
    joined = [x]
    for pool, cells in zip(head.pools, (1, 2, 3, 6), strict=True):
        grid = torch.stack(
            [
                torch.stack([mean_of_cell(x, cells, i, j) for j in range(cells)], dim=-1)
                for i in range(cells)
            ],
            dim=-2,
        )
        context = conv_norm_relu(pool[1], grid)
        assert context.shape == (2, 16, cells, cells)  # 64 / 4, a multiple of 16
        joined.append(resize_corners(context, *size))
    fused = conv_norm_relu(head.fuse, torch.cat(joined, dim=1), padding=1)
    expected = F.conv2d(fused, head.conv_seg.weight, head.conv_seg.bias)
    torch.testing.assert_close(head([None, x]), expected)


@pytest.mark.parametrize('dilations', [(6, 12, 18), (12, 24, 36)])
def test_the_atrous_head_is_its_equation(dilations):
    head = make('mmeffvit.SlimASPPHead', dilations=dilations)
    x = torch.randn(2, 64, 9, 11, dtype=torch.float64)
    first, *dilated = head.branches
    joined = [conv_norm_relu(first, x)]
    for branch, rate in zip(dilated, dilations, strict=True):
        assert branch.conv.weight.shape == (24, 64, 3, 3)  # full, not depth-wise
        joined.append(conv_norm_relu(branch, x, padding=rate, dilation=rate))
    pooled = conv_norm_relu(head.image_pool[1], x.mean(dim=(2, 3), keepdim=True))
    joined.append(pooled + torch.zeros(9, 11))
    assert head.fuse.conv.weight.shape == (24, 5 * 24, 1, 1)
    fused = conv_norm_relu(head.fuse, torch.cat(joined, dim=1))
    expected = F.conv2d(fused, head.conv_seg.weight, head.conv_seg.bias)
    torch.testing.assert_close(head([None, x]), expected)


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
    init_default_scope('mmseg')
    head = MODELS.build(
        dict(
            type='mmeffvit.SlimPSPHead', in_channels=64, channels=32, num_classes=3,
            norm_cfg=dict(type='GN', num_groups=4),
        )
    )  # fmt: skip
    assert sum(isinstance(m, torch.nn.GroupNorm) for m in head.modules()) == 5
    assert head.train()([torch.randn(1, 64, 8, 8)]).shape == (1, 3, 8, 8)


def test_too_few_channels_for_the_pools_are_named():
    with pytest.raises(ValueError, match='32 channels are too few for 4 branches'):
        MODELS.build(dict(type='mmeffvit.SlimPSPHead', in_channels=32, channels=8, num_classes=3))
