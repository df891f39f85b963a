"""The check of a config: good ones pass, each kind of fault is named, and training stops at it."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import mmdet
import numpy as np
import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import nn

from mmeffvit.config.datasets import input_multiples
from mmeffvit.config.load import load_config, require_scope
from mmeffvit.config.values import uses_mmpretrain
from mmeffvit.errors import UserError
from mmeffvit.models.heads import class_counts
from mmeffvit.train.checks import config as config_check
from mmeffvit.train.checks.classes import settings_of_classes
from mmeffvit.train.checks.config import check_config, stop_at_faults
from mmeffvit.train.checks.findings import Kind
from mmeffvit.train.checks.settings import normalization
from mmeffvit.train.checks.step import Step
from mmeffvit.train.engine.launcher import build_runner
from tests.configs.models import one_of_each_head_and_family, skip_without, smallest_of_each_pairing
from tests.conftest import ROOT, rejected, run_command_here, run_python
from tests.variants import sampled

CONFIGS = ROOT / 'configs'
SHAPES = CONFIGS / 'maskrcnn_swiftformer_xs_shapes.py'
SSDLITE = CONFIGS / 'ssdlite_mobilevitv2_050.py'
MMDET_CONFIGS = Path(mmdet.__file__).parent / '.mim' / 'configs'
TINY_SHVIT = dict(
    type='mmeffvit.SHViT', arch=dict(channels=(16, 24, 32), depths=(1, 1, 1), attended=(0, 8, 8))
)
IMAGENET = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], bgr_to_rgb=True)
PRETRAINED = dict(type='Pretrained', checkpoint='nowhere.pth')


def all_found(config: Config) -> dict[Kind, list[str]]:
    require_scope(config)
    findings = check_config(config)
    return {kind: [f.text for f in findings if f.kind is kind] for kind in Kind}


def found(config: Config, kind: Kind) -> list[str]:
    return all_found(config)[kind]


def the_fault(config: Config, *parts: str) -> None:
    """Assert that there is one fault, and that its text has these parts."""
    (text,) = found(config, Kind.FAULT)
    for part in parts:
        assert part in text, text


def retinanet(neck: dict, **backbone: object) -> Config:
    """RetinaNet of the usual strides, small, on a tiny SHViT."""
    model = dict(
        backbone=dict(_delete_=True, **TINY_SHVIT, **backbone),
        neck=dict(_delete_=True, **neck),
        bbox_head=dict(in_channels=16, feat_channels=16, stacked_convs=1),
    )
    return load_config(CONFIGS / 'retinanet_shvit_s4.py', dict(model=model))


def segmentor(backbone: dict, in_index: int, channels: int, **preprocessor: object) -> Config:
    """One convolutional head on one map."""
    head = dict(
        type='FCNHead', in_channels=channels, in_index=in_index, channels=8, num_convs=1,
        concat_input=False, num_classes=2, norm_cfg=dict(type='BN'), align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss'),
    )  # fmt: skip
    data = dict(type='BaseSegDataset', metainfo=dict(classes=('ground', 'disc')))
    preprocessor = {**IMAGENET, 'size': (64, 64), **preprocessor}
    model = dict(
        type='EncoderDecoder',
        data_preprocessor=dict(type='SegDataPreProcessor', **preprocessor),
        backbone=backbone,
        decode_head=head,
    )
    return Config(dict(default_scope='mmseg', model=model, train_dataloader=dict(dataset=data)))


# the smallest of every head
FEW = {name.split('_')[0]: name for name in reversed(one_of_each_head_and_family())}


@pytest.mark.parametrize('name', sampled(smallest_of_each_pairing(), FEW.values()))
def test_our_configs_have_no_fault(name):
    """Strides, channels, classes, normalization and gradients fit each other in all of them."""
    config = load_config(CONFIGS / f'{name}.py')
    if uses_mmpretrain(config.model):
        skip_without('mmpretrain')
    texts = all_found(config)
    assert texts[Kind.FAULT] == []
    assert not any('enlarges odd maps' in text for text in texts[Kind.NOTE])
    assert any('classes in all heads and in the data' in text for text in texts[Kind.PASSED])


def test_a_config_of_mmdet_has_no_fault():
    texts = all_found(load_config(MMDET_CONFIGS / 'retinanet' / 'retinanet_r18_fpn_1x_coco.py'))
    assert texts[Kind.FAULT] == []
    assert 'bbox_head (RetinaHead) declares strides 8, 16, 32, 64, 128' in texts[Kind.PASSED][0]
    assert re.search(r'frozen.*: backbone\.conv1.*backbone\.layer1', texts[Kind.NOTE][0])


FPN = dict(type='FPN', in_channels=[16, 24, 32], out_channels=16, num_outs=5)
FINER = dict(type='mmeffvit.TransposedFPN', in_channels=[16, 24, 32], out_channels=16, num_finer=1)
EXTRACTOR, MASK_HEAD = 'model.roi_head.mask_roi_extractor', 'model.roi_head.mask_head'
WITHOUT_DATA = dict.fromkeys(f'{split}_dataloader' for split in ('train', 'val', 'test'))
# what a config is, and the words of its one fault
FAULTS: dict[str, tuple[Callable[[], Config], tuple[str, ...]]] = {
    'maps of a standard FPN are too coarse': (
        lambda: retinanet(FPN),
        ('bbox_head (RetinaHead) declares stride 8 for level 0, a map of stride 16 arrives',
         'model.bbox_head.anchor_generator.strides=[16, 32, 64, 128, 256]',
         "type='mmeffvit.TransposedFPN', in_channels=[16, 24, 32], num_finer=1, coarser=True")),
    'a missing level': (
        lambda: retinanet(FINER), ('5 levels', 'it gets 4 maps, strides 8, 16, 32')),
    'a model that cannot be built': (
        lambda: retinanet(dict(FPN, num_outs=1)), ('cannot be built', 'AssertionError')),
    'strides of a RoI extractor': (
        lambda: load_config(SHAPES, {f'{EXTRACTOR}.featmap_strides': [8, 16, 32, 64]}),
        ('roi_head.mask_roi_extractor (SingleRoIExtractor) declares stride 8 for level 0',
         f'{EXTRACTOR}.featmap_strides=[4, 8, 16, 32]')),
    'other classes than the data': (
        lambda: load_config(SHAPES, {f'{MASK_HEAD}.num_classes': 80}),
        ('mask_head', 'num_classes=80', '4 classes: circle, square, triangle, star')),
    'heads that differ, without data': (
        lambda: load_config(SHAPES, {f'{MASK_HEAD}.num_classes': 80, **WITHOUT_DATA}),
        ('heads differ', 'mask_head (FCNMaskHead) 80', '(Shared2FCBBoxHead) 4')),
}  # fmt: skip


@pytest.mark.parametrize('name', FAULTS)
def test_a_fault_is_named_with_its_fix(name):
    make, words = FAULTS[name]
    the_fault(make(), *words)


def test_wrong_channels_of_a_neck_of_ours_are_reported():
    faults = found(retinanet(dict(FINER, in_channels=[16, 24, 64])), Kind.FAULT)
    named = 'neck (TransposedFPN) has in_channels=[16, 24, 64]'
    assert any(named in text and 'in_channels=[16, 24, 32]' in text for text in faults), faults


def test_faults_behind_wrong_channels_are_found_in_the_same_pass():
    config = retinanet(dict(FPN, in_channels=[1, 2, 3], out_channels=24))
    config.model.bbox_head.num_classes = 7
    faults = found(config, Kind.FAULT)
    assert len(faults) == 4, faults
    for words in (
        'set model.neck.in_channels=[16, 24, 32]', 'set model.bbox_head.in_channels=24',
        'declares stride 8 for level 0', 'has num_classes=7',
    ):  # fmt: skip
        assert any(words in text for text in faults), words
    config.model.neck.in_channels = [16, 24, 32]
    config.model.bbox_head.in_channels = 24
    later = found(config, Kind.FAULT)  # nothing new
    assert sorted(later) == sorted(
        text for text in faults if 'in_channels' not in text.split(',')[0]
    )


def test_classes_under_the_old_key_are_reported():
    config = load_config(SHAPES)
    config.train_dataloader.dataset.metainfo = dict(CLASSES=('circle',))
    faults = found(config, Kind.FAULT)
    assert any('CLASSES, which mmdet and mmseg no longer read' in fault for fault in faults), faults


def test_imagenet_normalization_for_mobilevitv2_is_a_fault_and_padding_is_suggested():
    backbone = dict(type='mmeffvit.MobileViTv2', arch=0.25, out_indices=(4,), init_cfg=PRETRAINED)
    config = segmentor(backbone, 0, 128, size=(96, 96))
    the_fault(
        config, 'MobileViTv2 expects RGB with mean [0.0, 0.0, 0.0]', 'std=[255.0, 255.0, 255.0]'
    )
    (hint,) = found(config, Kind.NOTE)
    assert 'unless both sides are multiples of 64' in hint
    config.model.data_preprocessor.update(mean=[0.0] * 3, std=[255.0] * 3, size=(64, 64))
    texts = all_found(config)
    assert texts[Kind.FAULT] == texts[Kind.NOTE] == []


def test_no_padding_is_suggested_for_images_of_a_fixed_size():
    for side, expected in ((320, False), (300, True)):
        resize = {'model.backbone.odd_size': 'official'}
        for split in ('train', 'val', 'test'):
            steps = load_config(SSDLITE)[f'{split}_dataloader'].dataset.pipeline
            (index,) = [i for i, step in enumerate(steps) if step['type'] == 'Resize']
            resize[f'{split}_dataloader.dataset.pipeline.{index}.scale'] = (side, side)
        notes = found(load_config(SSDLITE, resize), Kind.NOTE)
        assert any('enlarges odd maps' in text for text in notes) == expected, notes


def test_the_size_after_a_pipeline_is_known():
    pad, crop = dict(type='Pad', size=(640, 512)), dict(type='RandomCrop', crop_size=(640, 640))
    stretch = dict(type='Resize', scale=(320, 256), keep_ratio=False)
    keep = dict(type='Resize', scale=(320, 256), keep_ratio=True)
    for steps, divisor, expected in (
        ([keep], 1, (1,)),
        ([keep], 32, (32,)),
        ([stretch], 1, (320, 256)),
        ([stretch, crop], 1, (1,)),
        ([crop, pad], 32, (640, 512)),
        ([pad], 48, (48, 48)),  # padded on to the next multiple
        ([stretch, dict(type='RandomChoice', transforms=[[keep]])], 1, (1,)),
        ([keep, dict(type='mmeffvit.FloorToMultiple', divisor=64)], 1, (64,)),
        ([keep, dict(type='Pad', size_divisor=32)], 1, (32,)),
    ):
        config = Config(
            dict(
                model=dict(data_preprocessor=dict(pad_size_divisor=divisor)),
                train_dataloader=dict(dataset=dict(type='CocoDataset', pipeline=steps)),
            )
        )
        assert input_multiples(config) == expected, steps


def test_plain_names_need_an_import_in_the_config():
    config = load_config(SHAPES, {'model.backbone.type': 'SwiftFormer'})
    the_fault(config, "type='SwiftFormer'", "type='mmeffvit.SwiftFormer'", 'custom_imports')
    config.custom_imports = dict(imports=['mine'])
    texts = all_found(config)
    assert texts[Kind.FAULT] == []
    assert any('unless mine imports it' in text for text in texts[Kind.NOTE])
    config.custom_imports = dict(imports=['mmeffvit'])
    assert all_found(config)[Kind.FAULT] == []


def test_channels_of_yolov3_begin_at_the_coarsest_map():
    config = load_config(MMDET_CONFIGS / 'yolo' / 'yolov3_d53_8xb8-320-273e_coco.py')
    config.model.backbone = dict(TINY_SHVIT)
    (fault, *_) = found(config, Kind.FAULT)
    assert 'set model.neck.in_channels=[32, 24, 16]' in fault
    config.model.neck.in_channels = [32, 24, 16]
    assert not any('in_channels' in text for text in found(config, Kind.FAULT))


def test_maps_that_do_not_exist_are_reported_with_both_keys():
    config = segmentor(TINY_SHVIT, 0, 16)
    config.model.decode_head.update(
        in_index=[0, 1, 2, 3], in_channels=[16, 24, 32, 40], input_transform='resize_concat'
    )
    fix = 'model.decode_head.in_index=[0, 1, 2] and model.decode_head.in_channels=[16, 24, 32]'
    the_fault(config, 'has in_index=[0, 1, 2, 3], but 3 maps arrive', fix)
    fix = 'model.decode_head.in_index=2 and model.decode_head.in_channels=32'
    the_fault(segmentor(TINY_SHVIT, 3, 40), 'has in_index=3, but 3 maps arrive', fix)


def test_the_normalization_of_a_wrapped_detector_is_the_one_of_its_branches():
    own = dict(IMAGENET, bgr_to_rgb=False)
    wrapper = dict(type='MultiBranchDataPreprocessor', data_preprocessor=own)
    config = Config(dict(model=dict(detector={}, data_preprocessor=wrapper)))
    step = Step('mmdet', ConfigDict(data_preprocessor=IMAGENET), 'model.detector')
    *_, rgb, where, _ = normalization(step, config)
    assert (rgb, where) == (False, 'model.data_preprocessor.data_preprocessor')
    del config.model.data_preprocessor
    *_, rgb, where, _ = normalization(step, config)
    assert (rgb, where) == (True, 'model.detector.data_preprocessor')


def test_the_arguments_of_classes_are_the_own_ones_of_a_head():
    meta = dict(classes=('a', 'b', 'c'), thing_classes=('a', 'b'))
    head = nn.Module()
    assert settings_of_classes(head, 'model.x', meta) == 'model.x.num_classes=3'
    head.kernel_generate_head = head.num_things_classes = None
    found = settings_of_classes(head, 'model.x', meta)
    assert 'model.x.num_things_classes=2 and num_stuff_classes=1' in found
    del head.num_things_classes
    assert settings_of_classes(head, 'x', meta) == 'x.kernel_generate_head.num_classes=3'
    head = nn.Module()
    head.panoptic_fusion_head = nn.Module()
    head.panoptic_fusion_head.num_classes = 80
    assert class_counts(head) == {'panoptic_fusion_head': 80}


def test_pretrained_of_the_base_is_reported_with_init_cfg():
    config = segmentor(TINY_SHVIT, 0, 16)
    config.model.pretrained = 'resnet.pth'
    texts = found(config, Kind.FAULT)
    assert any('set model.pretrained=None' in text for text in texts), texts


def test_a_key_left_from_the_base_is_reported_with_its_fix(tmp_path):
    config = load_config(MMDET_CONFIGS / 'retinanet' / 'retinanet_r18_fpn_1x_coco.py')
    config.model.backbone.update(type='mmeffvit.SwiftFormer', arch='xs')
    fix = r"argument '(\w+)', set in model\.backbone\. .*backbone=dict\(_delete_=True, \.\.\.\)"
    (fault,) = found(config, Kind.FAULT)
    assert re.search(f'the model cannot be built: .*{fix}', fault), fault
    config.work_dir = str(tmp_path)
    with pytest.raises(UserError, match=fix):
        build_runner(config)


def test_an_unused_level_of_the_neck_is_a_fault_for_several_processes_only():
    config = segmentor(TINY_SHVIT, 0, 16)
    config.model.neck = FINER
    config.model.decode_head = dict(
        type='UPerHead', in_channels=[16] * 3, in_index=(0, 1, 2), channels=8, num_classes=2,
        norm_cfg=dict(type='BN'), align_corners=False, loss_decode=dict(type='CrossEntropyLoss'),
    )  # fmt: skip
    the_fault(config, 'no gradient reaches neck.output.3', 'a single process does not')
    texts = [str(finding) for finding in check_config(config, distributed=False)]
    assert any(text.startswith('note: no gradient reaches neck.output.3') for text in texts)
    stop_at_faults(config)  # this is one process


def test_bgr_images_are_a_fault_for_pretrained_weights_only():
    config = retinanet(dict(FINER, coarser=True), init_cfg=PRETRAINED)
    config.model.data_preprocessor.bgr_to_rgb = False
    the_fault(config, 'SHViT expects RGB', 'gets BGR', 'bgr_to_rgb=True')
    config.model.backbone.init_cfg = None
    texts = all_found(config)
    assert texts[Kind.FAULT] == []
    assert 'gets BGR' in ' '.join(texts[Kind.NOTE])


def test_an_unused_map_is_reported_with_its_parameters():
    arch = dict(channels=(8, 8, 16, 16), depths=(1, 1, 1, 1))
    config = segmentor(dict(type='mmeffvit.SwiftFormer', arch=arch), 3, 16)
    fix = 'model.backbone.out_indices=(3,)'
    the_fault(config, 'backbone.output_norms.0, backbone.output_norms.1', fix)
    config.find_unused_parameters = True
    assert found(config, Kind.FAULT) == []
    config.pop('find_unused_parameters')
    config.model.backbone.out_indices = (3,)
    config.model.decode_head.in_index = 0
    assert found(config, Kind.FAULT) == []


def test_a_head_without_strides_is_reported_as_unchecked():
    backbone = dict(type='mmeffvit.SwiftFormer', arch='xs', out_indices=(3,))
    texts = found(segmentor(backbone, 0, 220), Kind.UNCHECKED)
    assert any('decode_head (FCNHead): none declared' in text for text in texts), texts


def test_a_check_that_fails_on_a_model_is_reported_as_unchecked(monkeypatch):
    def failing(step, config):
        raise AttributeError('a head like no other')

    monkeypatch.setattr(config_check, 'compare_classes', failing)
    texts = all_found(load_config(SHAPES))
    assert texts[Kind.FAULT] == []
    assert 'classes: AttributeError: a head like no other' in texts[Kind.UNCHECKED]


def test_a_check_changes_neither_the_config_nor_any_state():
    config = load_config(SHAPES)
    before = config.dump()
    scope, logger = DefaultScope.get_current_instance(), MMLogger.get_current_instance()
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    found(config, Kind.FAULT)
    assert config.dump() == before
    assert DefaultScope.get_current_instance() is scope
    assert MMLogger.get_current_instance() is logger
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


FAST = ['train_cfg.max_epochs=1', 'train_dataloader.batch_size=4', 'model.backbone.init_cfg=None']
WRONG = 'model.roi_head.mask_roi_extractor.featmap_strides=[8,16,32,64]'


def test_the_command_exits_with_0_without_faults_and_1_with_faults():
    assert run_command_here('check', SHAPES, '--no-data').returncode == 0
    run = run_command_here('check', SHAPES, '--no-data', '--cfg-options', WRONG)
    assert run.returncode == 1
    assert 'error: roi_head.mask_roi_extractor' in run.stdout
    assert run.stdout.strip().splitlines()[-1].startswith(f'{SHAPES}: 1 error, checked in')


def test_training_stops_at_a_fault_unless_the_check_is_disabled(shapes, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(Runner, 'train', lambda runner: started.append(runner))
    options = ['--work-dir', tmp_path, '--cfg-options', f'data_root={shapes}/', WRONG, *FAST]
    message = rejected('train', SHAPES, *options)
    assert started == []
    assert 'has 1 error (--no-check trains anyway): roi_head.mask_roi' in message
    assert run_command_here('train', SHAPES, '--no-check', *options).returncode == 0
    assert len(started) == 1


@pytest.mark.slow
@pytest.mark.variant
def test_every_process_stops_at_a_fault_that_the_first_reports(shapes, tmp_path):
    run = run_python(
        '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2',
        ROOT / 'tools' / 'train.py', SHAPES, '--work-dir', tmp_path, '--launcher', 'pytorch',
        '--cfg-options', f'data_root={shapes}/', WRONG, *FAST, env={'OMP_NUM_THREADS': '1'},
    )  # fmt: skip
    assert run.returncode != 0
    assert run.stdout.count('declares stride 8 for level 0') == 1, run.stdout
    assert re.search('error: .* has 1 error .--no-check trains anyway.', run.stdout)
