"""Deformable DETR: parameters, single-head layers and odd image sizes."""

import pytest
import torch

from tests.configs.models import build, count, load, random_batch, theirs
from tests.variants import sampled

SINGLE_HEAD = 'deformabledetr_resnet_50_single_head'
NAMES = (
    'deformabledetr_resnet_50',
    SINGLE_HEAD,
    'deformabledetr_shvit_s4_single_head',
    'deformabledetr_swiftformer_l1_single_head',
)


def test_the_stock_model_has_the_parameters_of_mmdets_model():
    other = theirs('mmdet', 'deformable_detr/deformable-detr_r50_16xb2-50e_coco.py')
    with torch.device('meta'):
        models = build(load('deformabledetr_resnet_50')), build(other)
    assert [count(model) for model in models] == [40_118_934] * 2


def test_the_single_head_config_differs_from_the_stock_one_in_nothing_else():
    stock, single = (load(name).to_dict() for name in ('deformabledetr_resnet_50', SINGLE_HEAD))
    chosen = single['model'].pop('single_head')
    assert (chosen['encoder'], chosen['decoder']) == ([1, 2, 3], [1, 2, 3])
    assert (chosen['attended'], chosen['attention'], chosen['ffn_channels']) == (64, 'split', None)
    assert single['model'].pop('type') == 'mmeffvit.SingleHeadDeformableDETR'
    assert stock['model'].pop('type') == 'DeformableDETR'
    assert single == stock


@pytest.mark.parametrize('name', sampled(NAMES, [SINGLE_HEAD]))
def test_images_of_different_and_odd_sizes_train_together_and_are_predicted(name):
    model = build(load(name))
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
