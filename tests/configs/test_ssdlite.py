"""SSDLite with MobileViTv2: any size, precision, the rate, EMA weights and data."""

import math

import numpy as np
import pytest
import torch
from mmengine.model import ExponentialMovingAverage
from mmengine.registry import HOOKS, PARAM_SCHEDULERS, init_default_scope
from mmengine.structures import InstanceData
from torch import nn

from tests.configs.models import build, load

NAME = 'ssdlite_mobilevitv2_050'


def batch(height: int, width: int, number: int = 1) -> dict:
    """Noise with two instances, in the format of a data loader."""
    from mmdet.structures import DetDataSample

    rng = np.random.default_rng(0)
    samples = []
    for _ in range(number):
        shapes = dict(img_shape=(height, width), ori_shape=(2 * height, 2 * width))
        sample = DetDataSample(metainfo=dict(**shapes, scale_factor=(0.5, 0.5), img_id=0))
        sample.gt_instances = InstanceData(
            bboxes=torch.tensor([[10.0, 10, 60, 90], [20, 30, width - 5, height - 5]]),
            labels=torch.tensor([0, 79]),
        )
        samples.append(sample)
    images = torch.tensor(rng.integers(0, 256, (number, 3, height, width)), dtype=torch.uint8)
    return dict(inputs=list(images), data_samples=samples)


@pytest.mark.parametrize(('height', 'width', 'number'), [(320, 320, 1), (300, 200, 1), (65, 97, 2)])
def test_any_size_trains_a_step_and_predicts_inside_the_image(height, width, number):
    model = build(load(NAME)).train()
    data = model.data_preprocessor(batch(height, width, number), training=True)
    loss, _ = model.parse_losses(model(**data, mode='loss'))
    loss.backward()
    assert loss.isfinite()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    model.eval()
    with torch.no_grad():
        results = model.test_step(batch(height, width, number))
    for result in results:
        found = result.pred_instances
        assert 0 < len(found) <= 200
        assert (found.bboxes >= 0).all()
        assert (found.bboxes <= torch.tensor([width, height] * 2) * 2).all()
        assert found.scores.min() > 0.01


def test_a_batch_of_images_of_two_sizes_is_padded_and_its_boxes_stay_inside_each():
    model = build(load(NAME)).eval()
    small, large = batch(160, 320), batch(320, 200)
    mixed = {key: small[key] + large[key] for key in small}
    with torch.no_grad():
        results = model.test_step(mixed)
    for result, (height, width) in zip(results, [(320, 640), (640, 400)], strict=True):
        assert (result.pred_instances.bboxes <= torch.tensor([width, height] * 2)).all()


def test_mixed_precision_trains_and_predicts():
    model = build(load(NAME)).train()
    data = model.data_preprocessor(batch(320, 320), training=True)
    with torch.no_grad():
        whole, _ = model.parse_losses(model(**data, mode='loss'))
        with torch.autocast('cpu', dtype=torch.bfloat16):
            mixed, _ = model.parse_losses(model(**data, mode='loss'))
            (result,) = model.eval().test_step(batch(320, 320))
    assert mixed.dtype == torch.float32
    assert float(mixed) == pytest.approx(float(whole), rel=0.02)  # bfloat16 has 8 bits
    assert result.pred_instances.bboxes.dtype == torch.float32


def test_the_rate_rises_for_500_steps_then_follows_a_cosine_by_epoch():
    config = load(NAME)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=config.optim_wrapper.optimizer.lr)
    warm_up, cosine = (
        PARAM_SCHEDULERS.build(scheduler, default_args=dict(optimizer=optimizer))
        for scheduler in config.param_scheduler
    )
    rates = []
    for epoch in range(200):
        for step in range(916 if epoch == 0 else 2):  # 117K images / 128; later steps do nothing
            if epoch == 0 or step == 0:
                rates.append((epoch, step, optimizer.param_groups[0]['lr']))
            optimizer.step()
            warm_up.step()
        cosine.step()
    assert len(rates) == 916 + 199
    for epoch, step, rate in rates:
        expected = 1e-6 + (9e-4 - 1e-6) * (1 + math.cos(math.pi * epoch / 200)) / 2
        if epoch == 0:
            expected = 9e-4 * min(0.1 + 0.9 * step / 499, 1)
        assert rate == pytest.approx(expected, rel=1e-6), (epoch, step)


def test_ema_has_momentum_one_in_two_thousand_and_includes_the_statistics():
    config = load(NAME)
    (hook,) = (HOOKS.build(hook) for hook in config.custom_hooks)
    options = dict(hook.ema_cfg)
    assert options.pop('type') == 'ExponentialMovingAverage'
    norm = nn.BatchNorm2d(2)
    mean = ExponentialMovingAverage(norm, **options)
    mean.update_parameters(norm)
    nn.init.constant_(norm.weight, 2.0)
    norm.running_mean.fill_(4.0)
    mean.update_parameters(norm)
    assert mean.module.weight.tolist() == pytest.approx([1 + 1 / 2000] * 2)
    assert mean.module.running_mean.tolist() == pytest.approx([4 / 2000] * 2)


@pytest.fixture
def picture(tmp_path):
    """An orange image of 200 x 300 pixels with one box, in the format of a dataset."""
    import cv2

    image = np.full((200, 300, 3), (0, 128, 255), np.uint8)  # BGR
    cv2.imwrite(str(tmp_path / 'orange.png'), image)
    return dict(
        img_path=str(tmp_path / 'orange.png'),
        img_id=1,
        height=200,
        width=300,
        instances=[dict(bbox=[30.0, 20, 270, 180], bbox_label=3, ignore_flag=0)],
    )


def test_the_training_pipeline_is_in_the_order_of_the_authors(picture):
    from mmdet.registry import TRANSFORMS

    config = load(NAME)
    init_default_scope('mmdet')
    pipeline = config.train_dataloader.dataset.pipeline
    assert [transform.type for transform in pipeline] == [
        'LoadImageFromFile', 'LoadAnnotations', 'mmeffvit.MaxIoURandomCrop',
        'mmeffvit.PhotometricDistortion', 'RandomFlip', 'Resize', 'PackDetInputs',
    ]  # fmt: skip
    assert [set(pipeline[i]) for i in (2, 3)] == [{'type'}] * 2  # with default values
    assert pipeline[4].prob == 0.5
    transforms = [TRANSFORMS.build(transform) for transform in pipeline]
    for _ in range(10):
        results = dict(picture)
        for transform in transforms:
            results = transform(results)
        assert results['inputs'].shape == (3, 320, 320)
        assert results['inputs'].dtype == torch.uint8
        truth = results['data_samples'].gt_instances
        assert truth.labels.tolist() == [3]
        assert (truth.bboxes.tensor >= 0).all()
        assert (truth.bboxes.tensor <= 320).all()


def test_testing_stretches_the_image_and_the_model_sees_rgb_from_0_to_1(picture):
    from mmdet.registry import TRANSFORMS

    config = load(NAME)
    init_default_scope('mmdet')
    results = picture
    for transform in config.test_dataloader.dataset.pipeline:
        results = TRANSFORMS.build(transform)(results)
    assert results['data_samples'].scale_factor == (320 / 300, 320 / 200)
    data = build(config).data_preprocessor(
        dict(inputs=[results['inputs']], data_samples=[results['data_samples']])
    )
    assert data['inputs'].shape == (1, 3, 320, 320)
    assert data['inputs'].amax(dim=(0, 2, 3)).tolist() == pytest.approx([1.0, 128 / 255, 0.0])


@pytest.mark.parametrize('split', ['train', 'val', 'test'])
def test_images_are_resized_with_antialiased_bicubic_interpolation(split):
    from mmdet.registry import TRANSFORMS
    from PIL import Image

    config = load(NAME)
    init_default_scope('mmdet')
    pipeline = config[f'{split}_dataloader'].dataset.pipeline
    (resize,) = (TRANSFORMS.build(t) for t in pipeline if t.type == 'Resize')
    image = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    resized = resize(dict(img=image))['img']
    expected = Image.fromarray(image).resize((320, 320), Image.Resampling.BICUBIC)
    assert np.array_equal(resized, np.asarray(expected))
