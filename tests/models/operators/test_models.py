"""Models of mmdet's and mmseg's own configs build, train a step and predict with our operators."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.logging import MessageHub
from mmengine.model import revert_sync_batchnorm

from mmeffvit.models.operators import functions
from tests.configs.models import build_as_trained, random_batch, random_label_maps, train_step
from tests.variants import sampled

MODELS = {
    'mmdet': {
        'faster_rcnn/faster-rcnn_r50_fpn_1x_coco': {'nms', 'roi_align'},
        'faster_rcnn/faster-rcnn_r50_fpn_soft-nms_1x_coco': {'nms', 'roi_align', 'softnms'},
        'dcn/faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco': {'nms', 'roi_align', 'deform_conv'},
        'dcnv2/faster-rcnn_r50-mdconv-c3-c5_fpn_1x_coco': {
            'nms',
            'roi_align',
            'modulated_deform_conv',
        },
        'cascade_rcnn/cascade-mask-rcnn_r50_fpn_1x_coco': {'nms', 'roi_align'},
        'fcos/fcos_r50-caffe_fpn_gn-head_1x_coco': {'nms'},
        'atss/atss_r50_fpn_1x_coco': {'nms'},
        'yolox/yolox_tiny_8xb8-300e_coco': {'nms'},
        'detr/detr_r50_8xb2-150e_coco': set(),
        'mask2former/mask2former_r50_8xb2-lsj-50e_coco': set(),
    },
    'mmseg': {
        'upernet/upernet_r18_4xb4-80k_ade20k-512x512': set(),
        'segformer/segformer_mit-b0_8xb2-160k_ade20k-512x512': set(),
        'ddrnet/ddrnet_23-slim_in1k-pre_2xb6-120k_cityscapes-1024x1024': set(),
    },
}
CASES = [(package, name) for package, names in MODELS.items() for name in names]
# every operator, and a segmentor
FEW = [
    case for case in CASES
    if re.search('soft-nms|dconv|mdconv|segformer', case[1])
]  # fmt: skip


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


def read(package: str, name: str) -> Config:
    (folder,) = find_spec(package).submodule_search_locations
    config = Config.fromfile(Path(folder, '.mim', 'configs', f'{name}.py'))
    model = config.model
    model.pop('pretrained', None)
    model.data_preprocessor.pop('batch_augments', None)  # Mask2Former's pads to 1024 pixels
    if package == 'mmseg':
        model.data_preprocessor.size = (128, 128)
        return config
    # few boxes, and those that an untrained model is not sure of
    for part in (model.get('train_cfg') or {}, model.test_cfg):
        for stage in (part, part.get('rpn'), part.get('rpn_proposal'), part.get('rcnn')):
            for key, value in dict(nms_pre=100, max_per_img=50, score_thr=0.0).items():
                if stage and key in stage:
                    stage[key] = value
    return config


@pytest.mark.slow
@pytest.mark.parametrize(('package', 'name'), sampled(CASES, FEW))
def test_a_model_of_mmdet_or_mmseg_trains_and_predicts(package, name, called):
    MessageHub.get_current_instance().update_info('iter', 0)  # YOLOX reads it
    config = read(package, name)
    model = revert_sync_batchnorm(build_as_trained(config))
    batch = random_label_maps(19, number=2) if package == 'mmseg' else random_batch(80, number=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert train_step(model, batch).isfinite()
    assert any(not p.equal(before[name]) for name, p in model.named_parameters())
    # backward reached them; blocks that start as the identity get zeros
    trained = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    missed = [name for name, grad in trained.items() if grad is None or not grad.isfinite().all()]
    assert len(missed) < 0.1 * len(trained), missed
    with torch.no_grad():
        samples = model.eval().test_step(batch)
    for sample in samples:
        if package == 'mmseg':
            assert sample.pred_sem_seg.data.shape == (1, 128, 128)
            assert sample.seg_logits.data.isfinite().all()
        else:
            assert sample.pred_instances.bboxes.isfinite().all()
            assert len(sample.pred_instances) > 0
    assert called >= MODELS[package][name]
