"""RTMDet and SegFormer's decoder with the smallest variant of every family: sizes, recipes."""

from functools import cache
from types import SimpleNamespace

import pytest
import torch
from mmengine.model import convert_sync_batchnorm
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.datasets.shapes import CLASSES
from tests.configs.leaves import (
    build,
    build_as_trained,
    build_empty,
    count,
    load,
    random_batch,
    random_label_maps,
    train_step,
)
from tests.conftest import ROOT

# our own counts: parameters of the whole model and of all but the backbone; multiply-adds of
# convolutions and matrix products in 10**9, at 640 x 640 and at 512 x 512
RTMDET = {
    'rtmdet_swiftformer_xs': (4_271_850, 1_238_154, 8.828),
    'rtmdet_shvit_s1': (7_736_064, 1_726_896, 7.029),
    'rtmdet_mobilevitv2_050': (3_338_293, 2_224_700, 8.595),
    'rtmdet_efficientformerv2_s0': (4_284_860, 1_016_492, 8.067),
    'rtmdet_efficientformerv2_mobiatt_s0': (4_271_484, 1_016_492, 7.179),
}
SEGFORMER = {
    'segformer_swiftformer_xs_ade20k': (3_175_766, 141_974, 4.685),
    'segformer_shvit_s1_ade20k': (6_903_270, 894_102, 2.539),
    'segformer_mobilevitv2_050_ade20k': (1_281_679, 168_086, 3.489),
    'segformer_efficientformerv2_s0_ade20k': (3_390_374, 131_222, 4.000),
    'segformer_efficientformerv2_mobiatt_s0_ade20k': (3_381_606, 131_222, 3.639),
}
LEAVES = {**RTMDET, **SEGFORMER}
CHECKPOINTS = {
    'swiftformer': 'hf://timm/swiftformer_xs.dist_in1k',
    'shvit': 'hf://timm/shvit_s1.in1k',
    'mobilevitv2': 'hf://timm/mobilevitv2_050.cvnets_in1k',
    'efficientformerv2': 'hf://timm/efficientformerv2_s0.snap_dist_in1k',
}


def side_of(leaf: str) -> int:
    return 640 if leaf in RTMDET else 512


@cache
def empty(leaf: str) -> nn.Module:
    """The model on the meta device; many tests read it, none changes it."""
    return build_empty(leaf).eval()


def batch_for(leaf: str, size: int, number: int) -> dict:
    if leaf in SEGFORMER:
        return random_label_maps(150, size, number)
    batch = random_batch(80, size, number)
    for sample in batch['data_samples']:
        # data with boxes only: the assigner would take the centres of masks
        sample.gt_instances.pop('masks', None)
    return batch


def maps_that_arrive(model: nn.Module, side: int) -> tuple[torch.Tensor, ...]:
    with torch.device('meta'):
        return model.extract_feat(torch.empty(1, 3, side, side))


@pytest.mark.parametrize('leaf', LEAVES)
def test_parameters_and_multiply_adds_are_those_we_counted(leaf):
    model = empty(leaf)
    parameters, without_backbone, giga_macs = LEAVES[leaf]
    assert count(model) == parameters
    assert count(model) - count(model.backbone) == without_backbone
    side = side_of(leaf)
    with FlopCounterMode(display=False) as counter, torch.device('meta'):
        model(torch.empty(1, 3, side, side), mode='tensor')
    assert counter.get_total_flops() / 2e9 == pytest.approx(giga_macs, abs=5e-4)


@pytest.mark.parametrize('leaf', LEAVES)
def test_images_are_normalised_as_the_backbone_declares(leaf):
    preprocessor = load(leaf).model.data_preprocessor
    backbone = empty(leaf).backbone
    assert tuple(preprocessor.mean) == backbone.input_mean
    assert tuple(preprocessor.std) == backbone.input_std
    assert preprocessor.bgr_to_rgb


@pytest.mark.parametrize('leaf', RTMDET)
def test_points_have_the_strides_of_the_maps_that_arrive(leaf):
    model = empty(leaf)
    strides = [stride for stride, _ in model.bbox_head.prior_generator.strides]
    assert strides == [8, 16, 32, 64][: 4 if 'shvit' in leaf else 3]
    maps = maps_that_arrive(model, 640)
    assert [tuple(x.shape) for x in maps] == [(1, 96, 640 // s, 640 // s) for s in strides]
    # the neck doubles maps: no coarser one may be rounded up
    assert model.data_preprocessor.pad_size_divisor % strides[-1] == 0


@pytest.mark.parametrize('leaf', SEGFORMER)
def test_all_maps_of_the_backbone_meet_at_the_finest(leaf):
    model = empty(leaf)
    maps = maps_that_arrive(model, 512)
    finest = 8 if 'shvit' in leaf else 4
    strides = [finest * 2**i for i in range(4)]
    assert [512 // x.shape[-1] for x in maps] == strides
    assert model.decode_head.in_index == [0, 1, 2, 3]
    logits = model.decode_head(maps)
    assert logits.shape == (1, 150, 512 // finest, 512 // finest)


@pytest.mark.parametrize('leaf', [leaf for leaf in LEAVES if 'mobilevitv2' in leaf])
def test_mobilevitv2_resizes_no_map_in_training_or_testing(leaf):
    model = build(load(leaf))
    batch = batch_for(leaf, 96, 1)
    for training in (True, False):
        height, width = model.data_preprocessor(batch, training)['inputs'].shape[2:]
        assert (height % 64, width % 64) == (0, 0)
    assert side_of(leaf) % 64 == 0


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_trains_every_parameter_and_predicts(leaf):
    config = load(leaf)
    if leaf in SEGFORMER:
        config.model.data_preprocessor.size = (128, 128)  # not padded to 512: time
    model = build_as_trained(config)
    assert train_step(model, batch_for(leaf, 128, 2)).isfinite()
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert unused == []
    model.eval()
    with torch.no_grad():
        (found,) = model.test_step(batch_for(leaf, 128, 1))
    if leaf in SEGFORMER:
        assert found.pred_sem_seg.data.shape == (1, 128, 128)
        assert found.seg_logits.data.shape == (150, 128, 128)
    else:
        assert found.pred_instances.bboxes.shape == (len(found.pred_instances), 4)
        assert found.pred_instances.scores.isfinite().all()


@pytest.mark.parametrize('leaf', ['rtmdet_shvit_s1', 'segformer_mobilevitv2_050_ade20k'])
def test_a_prediction_has_the_size_of_an_image_that_is_padded(leaf):
    model = build_as_trained(load(leaf)).eval()
    with torch.no_grad():
        (found,) = model.test_step(batch_for(leaf, 100, 1))
    if leaf in SEGFORMER:
        assert found.pred_sem_seg.data.shape == (1, 100, 100)
    else:
        assert found.pred_instances.bboxes.min() >= 0
        assert found.pred_instances.bboxes.max() <= 100


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_says_that_there_is_no_result_and_what_a_step_is(leaf):
    config = load(leaf)
    docstring = (ROOT / 'configs' / f'{leaf}.py').read_text().split('"""')[1]
    docstring = ' '.join(docstring.split())
    assert 'Paper: none. Ours: not trained yet.' in docstring
    assert f'{config.auto_scale_lr.base_batch_size} images a step' in docstring


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_backbone_starts_from_released_weights_at_its_size(leaf):
    backbone = load(leaf).model.backbone
    family = leaf.split('_')[1]
    assert backbone.init_cfg == dict(type='Pretrained', checkpoint=CHECKPOINTS[family])
    assert backbone.get('attention') == ('mobile' if 'mobiatt' in leaf else None)
    if family == 'efficientformerv2':
        assert backbone.resolution == side_of(leaf)


@pytest.mark.parametrize('leaf', RTMDET)
def test_the_recipe_of_rtmdet_is_its_tiny_models_at_half_the_rate(leaf):
    config = load(leaf)
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 2e-3, 0.05)
    warm_up, cosine = config.param_scheduler
    assert (warm_up.start_factor, warm_up.end, warm_up.by_epoch) == (1e-5, 1000, False)
    assert (cosine.begin, cosine.end, cosine.T_max) == (150, 300, 150)
    assert cosine.eta_min == optimizer.lr / 20
    assert (config.train_cfg.max_epochs, config.train_cfg.dynamic_intervals) == (300, [(280, 1)])
    average, switch = config.custom_hooks
    assert (average.ema_type, average.momentum) == ('ExpMomentumEMA', 2e-4)
    assert (average.update_buffers, average.priority) == (True, 49)
    assert switch.switch_epoch == 280
    transforms = [transform.type for transform in config.train_dataloader.dataset.pipeline]
    assert [t for t in transforms if t.startswith('Cached')] == ['CachedMosaic', 'CachedMixUp']
    single = [transform.type for transform in switch.switch_pipeline]
    assert single == [t for t in transforms if not t.startswith('Cached')]
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 256
    assert config.sync_bn == 'torch'


@pytest.mark.parametrize('leaf', SEGFORMER)
def test_the_recipe_of_the_decoder_is_segformers(leaf):
    config = load(leaf)
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 6e-5, 0.01)
    warm_up, poly = config.param_scheduler
    assert (warm_up.start_factor, warm_up.end, warm_up.by_epoch) == (1e-6, 1500, False)
    assert (poly.type, poly.power, poly.eta_min) == ('PolyLR', 1.0, 0.0)
    assert (poly.begin, poly.end) == (1500, config.train_cfg.max_iters) == (1500, 160_000)
    assert config.train_dataloader.batch_size * 4 == config.auto_scale_lr.base_batch_size == 16
    assert config.sync_bn == 'torch'
    head = config.model.decode_head
    assert (head.type, head.channels, head.dropout_ratio) == ('SegformerHead', 128, 0.1)
    assert not head.align_corners
    assert config.model.backbone.get('norm_eval', False) == ('shvit' in leaf)


@pytest.mark.parametrize('leaf', LEAVES)
def test_the_optimizer_treats_each_parameter_as_the_recipe_says(leaf):
    config = load(leaf)
    model = build(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    settings = {id(p): group for group in optimizer.param_groups for p in group['params']}
    normal = config.optim_wrapper.optimizer
    owners = [(n, m) for n, m in model.named_modules() if list(m.parameters(recurse=False))]
    for module_name, module in owners:
        is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm | nn.GroupNorm)
        for name, parameter in module.named_parameters(recurse=False):
            group = settings[id(parameter)]
            if leaf in RTMDET:
                decays, rate = not (is_norm or name == 'bias'), 1.0
            else:
                new = module_name.startswith(('decode_head', 'neck'))
                decays, rate = new or not is_norm, 10.0 if new else 1.0
            assert group['weight_decay'] == (normal.weight_decay if decays else 0.0)
            assert group['lr'] == pytest.approx(normal.lr * rate)


@pytest.mark.parametrize('leaf', ['rtmdet_swiftformer_xs', 'segformer_swiftformer_xs_ade20k'])
def test_in_a_distributed_run_every_batch_norm_spans_the_processes(leaf):
    config = load(leaf)
    with torch.device('meta'):
        model = convert_sync_batchnorm(build(config), config.sync_bn)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert {type(norm) for norm in norms} == {nn.SyncBatchNorm}


def test_the_data_of_rtmdet_is_square_combined_and_late_in_training_single(shapes, monkeypatch):
    from mmdet.registry import DATASETS, HOOKS

    monkeypatch.setenv('DATA_ROOT', str(shapes))
    config = load('rtmdet_swiftformer_xs')
    for loader in (config.train_dataloader, config.val_dataloader):
        loader.dataset.metainfo = dict(classes=CLASSES)
    init_default_scope('mmdet')
    dataset = DATASETS.build(config.train_dataloader.dataset)
    for index in range(6):  # the fifth has partners enough for a mosaic
        sample = dataset[index % len(dataset)]
        assert sample['inputs'].shape == (3, 640, 640)
        assert 'masks' not in sample['data_samples'].gt_instances
        assert len(sample['data_samples'].gt_instances.bboxes)
    hook = HOOKS.build(config.custom_hooks[1])
    loader = SimpleNamespace(dataset=dataset, persistent_workers=False)
    logger = SimpleNamespace(info=lambda message: None)
    for epoch, combined in ((279, True), (280, False)):
        hook.before_train_epoch(
            SimpleNamespace(epoch=epoch, train_dataloader=loader, logger=logger)
        )
        names = [type(transform).__name__ for transform in dataset.pipeline.transforms]
        assert ('CachedMosaic' in names) == combined
        assert dataset[0]['inputs'].shape == (3, 640, 640)
    tested = DATASETS.build(config.val_dataloader.dataset)[0]
    assert tested['inputs'].shape == (3, 640, 640)
