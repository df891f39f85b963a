"""Models of mmdet's own configs train a step and predict with our operators."""

import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.model import revert_sync_batchnorm

from mmeffvit.models.operators import functions
from tests.configs.models import build_as_trained, random_batch, theirs, train_step
from tests.variants import sampled

# every operator that their models call
MODELS = {
    'faster_rcnn/faster-rcnn_r50_fpn_soft-nms_1x_coco': {'nms', 'roi_align', 'softnms'},
    'dcn/faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco': {'nms', 'roi_align', 'deform_conv'},
    'dcnv2/faster-rcnn_r50-mdconv-c3-c5_fpn_1x_coco': {'nms', 'modulated_deform_conv'},
    'cascade_rcnn/cascade-mask-rcnn_r50_fpn_1x_coco': {'nms', 'roi_align'},
    'fcos/fcos_r50-caffe_fpn_gn-head_1x_coco': {'nms'},
    'yolox/yolox_tiny_8xb8-300e_coco': {'nms'},
}


@pytest.fixture
def called(monkeypatch, _operators) -> set[str]:
    """The names of the operators that are called."""
    names: set[str] = set()

    def recorded(name: str, function):
        def call(*args, **kwargs):
            names.add(name.partition('_forward')[0])
            return function(*args, **kwargs)

        return call

    for function in functions.OPERATORS:
        name = function.__name__
        monkeypatch.setattr(functions, name, recorded(name, function))
    return names


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(list(MODELS), list(MODELS)[:3]))
def test_a_model_of_mmdet_trains_and_predicts(name, called):
    MessageHub.get_current_instance().update_info('iter', 0)  # YOLOX reads it
    config = theirs('mmdet', f'{name}.py')
    # few boxes, and those that an untrained model is not sure of
    for part in (config.model.get('train_cfg') or {}, config.model.test_cfg):
        for stage in (part, part.get('rpn'), part.get('rpn_proposal'), part.get('rcnn')):
            for key, value in dict(nms_pre=100, max_per_img=50, score_thr=0.0).items():
                if stage and key in stage:
                    stage[key] = value
    model = revert_sync_batchnorm(build_as_trained(config))
    batch = random_batch(80, number=2)
    assert train_step(model, batch).isfinite()
    # backward reached them; blocks that start as the identity get zeros
    trained = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    missed = [name for name, grad in trained.items() if grad is None or not grad.isfinite().all()]
    assert len(missed) < 0.1 * len(trained), missed
    with torch.no_grad():
        samples = model.eval().test_step(batch)
    for sample in samples:
        assert sample.pred_instances.bboxes.isfinite().all()
        assert len(sample.pred_instances) > 0
    assert called >= MODELS[name]
