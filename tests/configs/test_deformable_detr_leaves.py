"""The Deformable DETR leaves: sizes counted by hand, and the recipe of the host and the paper."""

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from tests.configs.leaves import build, load, random_batch

STOCK = 40_118_934
SINGLE_HEAD = 'deformabledetr_resnet_50_singlehead'
LEAVES = (
    'deformabledetr_resnet_50',
    SINGLE_HEAD,
    'deformabledetr_shvit_s4_singlehead',
    'deformabledetr_swiftformer_l1_singlehead',
)
# what a layer loses: eight heads against one, and a feed-forward of 1024 against one of 512
SAVED = {'split': 230_272 - 82_288, 'projected': 230_272 - 45_424}
FFN_SAVED = 262_656


def count(config: Config) -> int:
    with torch.device('meta'):
        model = build(config)
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_stock_model_has_the_parameters_of_the_host():
    assert count(load('deformabledetr_resnet_50')) == STOCK


@pytest.mark.parametrize('attention', ['split', 'projected'])
@pytest.mark.parametrize(('ffn_channels', 'ffn_saved'), [(None, 0), (1024, 0), (512, FFN_SAVED)])
def test_six_layers_save_what_was_counted_by_hand(attention, ffn_channels, ffn_saved):
    config = load(SINGLE_HEAD)
    config.model.single_head.update(attention=attention, ffn_channels=ffn_channels)
    assert count(config) == STOCK - 6 * (SAVED[attention] + ffn_saved)


def test_the_single_head_leaf_has_the_layers_of_the_paper():
    chosen = load(SINGLE_HEAD).model.single_head
    assert (chosen.encoder, chosen.decoder) == ([1, 2, 3], [1, 2, 3])
    assert (chosen.attended, chosen.attention, chosen.ffn_channels) == (64, 'split', None)


def test_the_single_head_leaf_differs_from_the_stock_one_in_nothing_else():
    stock, single = (load(leaf).to_dict() for leaf in ('deformabledetr_resnet_50', SINGLE_HEAD))
    assert single['model'].pop('single_head') is not None
    assert single['model'].pop('type') == 'mmeffvit.SingleHeadDeformableDETR'
    assert stock['model'].pop('type') == 'DeformableDETR'
    assert single == stock


@pytest.mark.parametrize('leaf', LEAVES)
def test_the_recipe_is_that_of_deformable_detr(leaf):
    config = load(leaf)
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 2e-4, 1e-4)
    assert config.optim_wrapper.clip_grad.max_norm == 0.1
    (steps,) = config.param_scheduler
    assert (steps.type, steps.milestones, steps.gamma) == ('MultiStepLR', [40], 0.1)
    assert config.train_cfg.max_epochs == steps.end == 50
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 32
    head = config.model.bbox_head
    weights = [head[name].loss_weight for name in ('loss_cls', 'loss_bbox', 'loss_iou')]
    assert weights == [2.0, 5.0, 2.0]
    assert [cost.weight for cost in config.model.train_cfg.assigner.match_costs] == weights
    assert (config.model.num_queries, config.model.num_feature_levels) == (300, 4)
    assert not config.model.with_box_refine
    assert not config.model.as_two_stage


@pytest.mark.parametrize('leaf', LEAVES)
def test_images_are_resized_as_for_detr_and_half_of_them_cropped(leaf):
    config = load(leaf)
    dataset = config.train_dataloader.dataset
    assert not dataset.filter_cfg.filter_empty_gt
    (choice,) = (step for step in dataset.pipeline if step.type == 'RandomChoice')
    (plain,), (before, crop, after) = choice.transforms
    scales = [(short, 1333) for short in (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)]
    assert [tuple(scale) for scale in plain.scales] == scales
    assert after == plain
    assert [tuple(scale) for scale in before.scales] == [(400, 4200), (500, 4200), (600, 4200)]
    assert (crop.crop_type, crop.crop_size) == ('absolute_range', (384, 600))
    assert all(step.keep_ratio for step in (plain, before))
    (resize,) = (s for s in config.test_dataloader.dataset.pipeline if s.type == 'Resize')
    assert (resize.scale, resize.keep_ratio) == ((1333, 800), True)


@pytest.mark.parametrize('leaf', LEAVES)
def test_the_backbone_and_what_says_where_to_look_learn_at_a_tenth_of_the_rate(leaf):
    config = load(leaf)
    with torch.device('meta'):
        model = build(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    rates = {id(group['params'][0]): group['lr'] for group in optimizer.param_groups}
    slow = ('backbone', 'sampling_offsets', 'reference_points')
    for name, parameter in model.named_parameters():
        expected = 2e-5 if any(part in name for part in slow) else 2e-4
        assert not parameter.requires_grad or rates[id(parameter)] == pytest.approx(expected), name
    offsets = [name for name, _ in model.named_parameters() if 'sampling_offsets.bias' in name]
    assert len(offsets) == 12


def test_the_resnet_is_frozen_as_in_the_recipe():
    with torch.device('meta'):
        model = build(load('deformabledetr_resnet_50'))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == 39_843_414


@pytest.mark.parametrize('leaf', LEAVES)
def test_four_levels_have_the_strides_of_the_recipe_and_are_normalised(leaf):
    model = build(load(leaf)).eval()
    image = torch.randn(1, 3, 97, 161)
    with torch.no_grad():
        levels = model.neck(model.backbone(image))
    # the transposed convolution doubles stride 16, which was rounded up
    finest = (14, 22) if 'shvit' in leaf else (13, 21)
    assert [tuple(level.shape[2:]) for level in levels] == [finest, (7, 11), (4, 6), (2, 3)]
    for level in levels:
        groups = level.view(32, -1)
        torch.testing.assert_close(groups.mean(dim=1), torch.zeros(32), rtol=0, atol=1e-4)


@pytest.mark.parametrize('leaf', LEAVES)
def test_images_of_different_and_odd_sizes_train_together_and_are_predicted(leaf):
    model = build(load(leaf))
    model.init_weights()
    large, small = random_batch(80), random_batch(80)
    large['inputs'] = [large['inputs'][0][:, :127, :]]
    for batch, shape in ((large, (127, 128)), (small, (123, 121))):
        batch['inputs'] = [batch['inputs'][0][:, : shape[0], : shape[1]]]
        batch['data_samples'][0].set_metainfo(dict(img_shape=shape, ori_shape=shape))
    both = {key: large[key] + small[key] for key in large}
    data = model.data_preprocessor(both, training=True)
    assert data['inputs'].shape == (2, 3, 127, 128)
    loss, parts = model.train().parse_losses(model(**data, mode='loss'))
    loss.backward()
    assert loss.isfinite()
    assert sum(name.endswith('loss_bbox') for name in parts) == 6
    without = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []
    with torch.no_grad():
        found = model.eval().test_step(both)
    assert [len(sample.pred_instances) for sample in found] == [100, 100]
    for sample in found:
        height, width = sample.ori_shape
        boxes = sample.pred_instances.bboxes
        assert boxes.min() >= 0
        assert (boxes.amax(dim=0) <= torch.tensor([width, height] * 2)).all()
