"""SSDLite with MobileViTv2: EMA weights and data; tests/released has its predictions."""

import numpy as np
import torch
from mmengine.registry import init_default_scope

from tests.configs.models import load

NAME = 'ssdlite_mobilevitv2_050'


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
    assert pipeline[5] in config.test_dataloader.dataset.pipeline  # its pixels: tests/released
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
