"""RTMDet, GFLite and SegFormer's decoder with small backbones: sizes, rates, data."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from torch import nn

from mmeffvit.data.shapes import CLASSES
from tests.configs.models import (
    CONFIGS,
    build,
    build_as_trained,
    load,
    random_batch,
    random_label_maps,
)

RTMDET = [name for name in CONFIGS if name.startswith('rtmdet')]
SEGFORMER = [name for name in CONFIGS if name.startswith('segformer')]
LIGHT = [*RTMDET, *SEGFORMER]
DETECTORS = [name for name in CONFIGS if name.startswith('gflite')]


def batch_for(name: str, size: int, number: int) -> dict:
    if name in SEGFORMER:
        return random_label_maps(150, size, number)
    batch = random_batch(80, size, number)
    for sample in batch['data_samples']:
        # data with boxes only: the assigner would use the centers of masks
        sample.gt_instances.pop('masks', None)
    return batch


@pytest.mark.parametrize('name', DETECTORS)
def test_gflite_is_trained_and_tested_at_the_size_of_its_name(name):
    config, side = load(name), 416 if '416' in name else 320
    assert {
        step.scale
        for mode in ('train', 'val', 'test')
        for step in config[f'{mode}_dataloader'].dataset.pipeline
        if step.type == 'Resize'
    } == {(side, side)}


@pytest.mark.parametrize('name', ['rtmdet_shvit_s1', 'segformer_mobilevitv2_050_ade20k'])
def test_a_prediction_has_the_size_of_an_image_that_is_padded(name):
    model = build_as_trained(load(name)).eval()
    with torch.no_grad():
        (found,) = model.test_step(batch_for(name, 100, 1))
    if name in SEGFORMER:
        assert found.pred_sem_seg.data.shape == (1, 100, 100)
    else:
        assert found.pred_instances.bboxes.min() >= 0
        assert found.pred_instances.bboxes.max() <= 100


@pytest.mark.parametrize('name', LIGHT)
def test_the_optimizer_treats_each_parameter_as_the_recipe_says(name):
    config = load(name)
    model = build(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    settings = {id(p): group for group in optimizer.param_groups for p in group['params']}
    normal = config.optim_wrapper.optimizer
    owners = [(n, m) for n, m in model.named_modules() if list(m.parameters(recurse=False))]
    for module_name, module in owners:
        is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm | nn.GroupNorm)
        for key, parameter in module.named_parameters(recurse=False):
            group = settings[id(parameter)]
            if name in RTMDET:
                decays, rate = not (is_norm or key == 'bias'), 1.0
            else:
                new = module_name.startswith(('decode_head', 'neck'))
                decays, rate = new or not is_norm, 10.0 if new else 1.0
            assert group['weight_decay'] == (normal.weight_decay if decays else 0.0)
            assert group['lr'] == pytest.approx(normal.lr * rate)


def test_rtmdet_trains_on_square_mosaics_and_late_in_training_on_single_images(shapes, monkeypatch):
    from mmdet.registry import DATASETS, HOOKS

    monkeypatch.setenv('DATA_ROOT', str(shapes))
    config = load('rtmdet_swiftformer_xs')
    for loader in (config.train_dataloader, config.val_dataloader):
        loader.dataset.metainfo = dict(classes=CLASSES)
    init_default_scope('mmdet')
    dataset = DATASETS.build(config.train_dataloader.dataset)
    for index in range(6):  # from the fifth on there are enough images for a mosaic
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
