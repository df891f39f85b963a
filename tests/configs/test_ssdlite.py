"""SSDLite with MobileViTv2: any size, EMA weights and data; tests/released has its predictions."""

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope

from tests.configs.models import build, load, random_batch

NAME = 'ssdlite_mobilevitv2_050'


def batch(height: int, width: int, number: int = 1) -> dict:
    """Noise with two instances, of images that were twice as large."""
    made = random_batch(80, (height, width), number)
    for sample in made['data_samples']:
        sample.set_metainfo(dict(ori_shape=(2 * height, 2 * width), scale_factor=(0.5, 0.5)))
        sample.gt_instances.bboxes.clamp_(max=min(height, width))
    return made


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


def test_the_training_pipeline_is_in_the_order_of_the_authors(tmp_path):
    import cv2
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
    (ema,) = config.custom_hooks
    assert (ema.momentum, ema.update_buffers) == (1 / 2000, True)
    transforms = [TRANSFORMS.build(transform) for transform in pipeline]
    image = tmp_path / 'orange.png'
    cv2.imwrite(str(image), np.full((200, 300, 3), (0, 128, 255), np.uint8))
    instances = [dict(bbox=[30.0, 20, 270, 180], bbox_label=3, ignore_flag=0)]
    for _ in range(10):
        results = dict(img_path=str(image), img_id=1, height=200, width=300, instances=instances)
        for transform in transforms:
            results = transform(results)
        assert results['inputs'].shape == (3, 320, 320)
        assert results['inputs'].dtype == torch.uint8
        truth = results['data_samples'].gt_instances
        assert truth.labels.tolist() == [3]
        assert (truth.bboxes.tensor >= 0).all()
        assert (truth.bboxes.tensor <= 320).all()


def test_training_images_are_resized_with_antialiased_bicubic_interpolation():
    from mmdet.registry import TRANSFORMS
    from PIL import Image

    config = load(NAME)
    init_default_scope('mmdet')
    pipeline = config.train_dataloader.dataset.pipeline
    (resize,) = (TRANSFORMS.build(t) for t in pipeline if t.type == 'Resize')
    image = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    resized = resize(dict(img=image))['img']
    expected = Image.fromarray(image).resize((320, 320), Image.Resampling.BICUBIC)
    assert np.array_equal(resized, np.asarray(expected))
