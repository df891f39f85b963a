"""A teacher in every step: losses reach the student alone, which stays an ordinary model."""

import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import nn

from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.load import load_config
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.distillation.teacher import (
    DetectorPair,
    SegmentorPair,
    TeacherHook,
    choose_losses,
    predictions,
)
from mmeffvit.train.engine.options import TrainOptions
from mmeffvit.train.engine.train import train
from mmeffvit.train.folder.base import Base
from mmeffvit.train.folder.distill import DistillOptions, make_teaching
from tests.conftest import ROOT
from tests.inference.untrained import save_untrained
from tests.learning.cases import BY_HEAD
from tests.learning.overfit import detection_data, schedule

NARROW = dict(in_channels=32, feat_channels=32, num_classes=3)


def build(head: str, **options: object) -> nn.Module:
    """An untrained model of a head."""
    case = BY_HEAD[head]
    config = load_config(
        ROOT / 'configs' / f'{case.config_name}.py',
        {'model.backbone.init_cfg': None, **case.options, **options},
    )
    with DefaultScope.overwrite_default_scope(config.default_scope):
        torch.manual_seed(0)
        return build_model(own_model_config(config))


def frozen(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize('name', ['cwd', 'imitation', 'crosskd'])
def test_every_loss_of_detectors_reaches_the_student_and_the_adapters_alone(name):
    student = build('RetinaNet', **{'model.neck.out_channels': 32, 'model.bbox_head': NARROW})
    teacher = frozen(build('RetinaNet'))
    pair = DetectorPair(student, teacher, (2, 0), (1, 3))
    loss = pair.make_loss(name)
    images = torch.randn(2, 3, 64, 96)
    maps = student.extract_feat(images)
    with torch.no_grad():
        known = pair.teach(pair.converted(images))
    value = loss(maps, known)
    assert torch.isfinite(value)
    value.backward()
    assert all(p.grad is not None for p in student.neck.parameters())
    assert all(p.grad is not None for p in pair.adapters.parameters())
    assert list(pair.adapters.parameters())
    assert all(p.grad is None for p in teacher.parameters())
    assert not any(module.training for module in teacher.modules())


def test_maps_of_other_strides_and_channels_are_paired():
    student = build('RTMDet')
    pair = DetectorPair(student, frozen(build('RetinaNet')), range(4), range(4))
    images = torch.randn(1, 3, 64, 64)
    for name in ('cwd', 'crosskd'):
        value = pair.make_loss(name)(student.extract_feat(images), pair.teach(images))
        assert torch.isfinite(value)
    other = DetectorPair(student, frozen(build('Mask R-CNN')), range(4), range(4))
    with pytest.raises(UserError, match='the teacher has NoneType, not a dense head'):
        other.make_loss('crosskd')


@pytest.mark.parametrize('head', ['RetinaNet', 'RTMDet'])
def test_predictions_at_all_places_hold_those_that_mmdet_returns(head):
    model = frozen(build(head))
    maps = model.extract_feat(torch.randn(2, 3, 64, 96))
    logits, boxes = (part.unflatten(0, (-1,)) for part in predictions(model.bbox_head, maps))
    metas = [dict(img_shape=(64, 96), scale_factor=(1, 1))] * 2
    config = dict(nms_pre=5000, score_thr=0.0, min_bbox_size=-1, max_per_img=5000)
    found: list[InstanceData] = model.bbox_head.predict_by_feat(
        *model.bbox_head(maps), batch_img_metas=metas, cfg=type(model.test_cfg)(config),
        with_nms=False,
    )  # fmt: skip
    scores, _ = logits.sigmoid().max(dim=1)
    expected = {round(float(s), 5) for each in found for s in each.scores}
    assert {round(float(s), 5) for s in scores} <= expected
    low, high = boxes.new_tensor([0, 0, 0, 0]), boxes.new_tensor([96, 64, 96, 64])
    clipped = boxes.clamp(low, high)
    everything = torch.cat([each.bboxes for each in found])
    for box in clipped[:: len(clipped) // 40]:
        assert (everything - box).abs().amax(dim=1).min() < 1e-3


@pytest.mark.parametrize('name', ['pixels', 'cwd'])
def test_losses_of_segmentors_compare_the_classes_that_both_have(name):
    student = build('SegFormer')
    teacher = frozen(build('Semantic FPN'))
    pair = SegmentorPair(student, teacher, (2, 7), (5, 1))
    kept = []
    pair.source(student).register_forward_hook(lambda module, inputs, out: kept.append(out))
    images = torch.randn(2, 3, 64, 64)
    student(images, None, mode='tensor')
    known = pair.teach(pair.converted(images))
    assert (kept[0].shape[1], known.shape[1]) == (150, 150)
    value = pair.make_loss(name)(kept[0], known)
    moved = known.clone()
    moved[:, 9] += 100.0  # of no common class
    assert float(pair.make_loss(name)(kept[0], moved)) == pytest.approx(float(value))
    value.backward()
    assert any(p.grad is not None for p in student.backbone.parameters())
    if name == 'pixels':  # probabilities of one class are 1
        with pytest.raises(UserError, match='share one: give --losses cwd'):
            SegmentorPair(student, teacher, (2,), (5,)).make_loss(name)


def test_images_are_converted_to_the_normalization_of_the_teacher():
    student, teacher = build('RetinaNet'), frozen(build('SSDLite'))
    pair = DetectorPair(student, teacher, range(4), range(4))
    raw = torch.randint(0, 256, (3, 64, 64)).float()  # BGR, as files are read
    ours, theirs = (
        m.data_preprocessor(dict(inputs=[raw], data_samples=None))['inputs']
        for m in (student, teacher)
    )
    assert not torch.allclose(ours, theirs)
    torch.testing.assert_close(pair.converted(ours), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_run_with_a_teacher_saves_an_ordinary_student_and_is_resumed(shapes, tmp_path, log):
    case = BY_HEAD['RTMDet']
    teacher = save_untrained(BY_HEAD['RetinaNet'], tmp_path / 'teacher', shapes)
    hook = dict(
        type='mmeffvit.TeacherHook',
        teacher=str(teacher.config),
        checkpoint=str(teacher.checkpoint),
        losses=('cwd', 'crosskd'),
    )

    def run(steps: int, **options: object) -> object:
        values = {
            **schedule(2, 1e-3),
            **detection_data(case, tmp_path / 'data'),
            'model.backbone.init_cfg': None,
            **case.options,
            'custom_hooks': [dict(type='EMAHook'), hook],
            'default_hooks.checkpoint': dict(interval=1, by_epoch=False),
            'train_cfg.max_iters': steps,
        }
        path = str(ROOT / 'configs' / f'{case.config_name}.py')
        work_dir = str(tmp_path / 'run')
        return train(
            path, TrainOptions(work_dir, cfg_options=values, seed=0, check=False, **options)
        )

    runner = run(1)
    saved = read_content(tmp_path / 'run' / 'iter_1.pth', 'cpu')
    assert saved['state_dict'].keys() == runner.model.state_dict().keys()
    adapters = saved['distillation']['adapters']
    assert adapters
    assert not runner.model._forward_hooks
    assert 'of which the teacher ' in log.text
    resumed = run(2, resume='auto')
    again = read_content(tmp_path / 'run' / 'iter_2.pth', 'cpu')
    states = again['distillation']['optimizer']['state']
    assert {float(state['step']) for state in states.values()} == {2.0}
    scalars = resumed.message_hub.log_scalars
    assert all(np.isfinite(scalars[f'train/loss_distill_{n}'].current()) for n in hook['losses'])


def test_adapters_are_loaded_in_resumed_runs_alone():
    hook = TeacherHook('x')
    adapter = nn.Conv2d(2, 2, 1)
    hook.pair = SimpleNamespace(adapters=adapter)
    hook.optimizer = torch.optim.SGD(adapter.parameters())
    checkpoint, before = {}, adapter.weight.detach().clone()
    hook.before_save_checkpoint(None, checkpoint)
    checkpoint = deepcopy(checkpoint)
    nn.init.zeros_(adapter.weight)
    hook.after_load_checkpoint(SimpleNamespace(_resume=False), checkpoint)
    assert not adapter.weight.any()
    hook.after_load_checkpoint(SimpleNamespace(_resume=True), checkpoint)
    assert torch.equal(adapter.weight, before)


def test_losses_that_cannot_be_are_a_user_error(tmp_path):
    with pytest.raises(UserError, match="no loss of mmdet is named 'pixels'; choose from cwd"):
        choose_losses(['pixels'], 'mmdet')
    base = Base.of('rtmdet_swiftformer_xs')
    path = tmp_path / 'found.json'
    path.write_text(json.dumps([]))
    options = DistillOptions(losses=['cwd'])
    with pytest.raises(UserError, match='--losses compare with a teacher that runs in every step'):
        make_teaching(str(path), base, options)
    for losses in (None, ['none']):
        assert make_teaching(str(path), base, DistillOptions(losses=losses)).teacher is None
    model = make_teaching('rtmdet_shvit_s1', base, DistillOptions())
    assert (model.teacher, model.losses) == ('rtmdet_shvit_s1', ('cwd',))
    assert make_teaching(str(Path('x')), base, DistillOptions(losses=['none'])).teacher is None
