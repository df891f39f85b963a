"""Every config loads, and the smallest of every pairing trains a step and predicts.

That strides, channels, classes and gradients fit is in tests/train/checks/test_config.py;
that the others run is tested without values, in test_metafile.py.
"""

import re

import pytest
import torch
from mmengine.config import Config
from mmengine.model import convert_sync_batchnorm
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mmeffvit.config.found import names_in_tables
from mmeffvit.config.load import load_config
from mmeffvit.zoo import read_models
from tests.configs.models import (
    ALL_CONFIGS,
    CONFIGS,
    batch_of,
    build_as_trained,
    build_empty,
    load,
    one_of_each_head_and_family,
    random_batch,
    smallest_of_each_pairing,
    train_step,
)
from tests.conftest import ROOT, run_python, succeeded
from tests.variants import check_all, sampled

FEW = one_of_each_head_and_family()
ZOO = read_models()
# single_head is a form of the detector
ATTENTIONS = '|'.join(sorted(names_in_tables('attention') - {'single_head'}, key=len)[::-1])
# after the variant, every part says one thing that is not the usual one, in this order
NAME = re.compile(
    r'(?P<head>[a-z]+\d?)_(?P<family>[a-z]+(v2)?)_(?P<arch>\d{2,3}|[a-z]{1,3}\d{0,2})'
    rf'(_(?P<attention>{ATTENTIONS}))?'
    r'(_(?P<form>single_head_projected|single_head|distilled|lightpan|partial_[a-z]+))?'
    r'(_(?P<data>ade20k|voc12|imagenet21k|from21k|shapes))?'
    r'(_(?P<side>\d{3}))?(_(?P<length>\d+[ek]))?'
)
FORMS = {  # what the model of a config has
    'single_head': "'num_heads': 1|'mmeffvit.SingleHeadDeformableDETR'",
    'single_head_projected': "'attention': 'projected'", 'lightpan': "'mmeffvit.LightPAN'",
    'distilled': "'mmeffvit.DistilledClassifier'", 'partial_half': "'partial_ratio': 0.5",
    'partial_eighth': "'partial_ratio': 0.125",
}  # fmt: skip
DATA = {
    'ade20k': 'ADE20K', 'voc12': 'Pascal VOC 2012 + COCO', 'imagenet21k': 'ImageNet-21k-P',
    'shapes': 'Shapes',
}  # fmt: skip


@pytest.mark.parametrize('name', sampled(CONFIGS, FEW))
def test_a_config_survives_dumping_and_reloading(name, tmp_path, monkeypatch):
    if name != CONFIGS[0]:  # formatting takes a second and changes no value
        monkeypatch.setattr('mmengine.config.config.FormatCode', lambda code, **_: (code, False))
    config = load(name)
    config.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == config.to_dict()


# the single heads of ResNet-50 train below
@pytest.mark.parametrize(
    'name',
    sampled(smallest_of_each_pairing(), [name for name in FEW if '50_single_head' not in name]),
)
def test_a_config_trains_a_step_and_predicts_at_an_odd_size(name):
    config, size = load(name), (127, 121)
    model = build_as_trained(config)
    assert train_step(model, batch_of(model, config, size)).isfinite()
    model.eval()
    with torch.no_grad():
        found = model.test_step(batch_of(model, config, size))[0]
    if config.default_scope == 'mmseg':
        assert found.pred_sem_seg.data.shape == (1, *size)
    else:
        boxes = found.pred_instances.bboxes
        assert (boxes >= 0).all()
        assert (boxes <= torch.tensor(size[::-1] * 2)).all()
        assert ('masks' in found.pred_instances) == name.startswith('maskrcnn')


TWO_SIZES = (
    'deformabledetr_resnet_50_single_head', 'ssdlite_mobilevitv2_050', 'deformabledetr_resnet_50',
    'deformabledetr_shvit_s4_single_head', 'deformabledetr_swiftformer_l1_single_head',
)  # fmt: skip


@pytest.mark.parametrize('name', sampled(TWO_SIZES, TWO_SIZES[:2]))
def test_images_of_different_and_odd_sizes_train_together_and_are_predicted(name):
    model, shapes = build_as_trained(load(name)), [(127, 128), (123, 121)]
    batch = random_batch(80, number=2)
    batch['inputs'] = [x[:, :h, :w] for x, (h, w) in zip(batch['inputs'], shapes, strict=True)]
    for sample, shape in zip(batch['data_samples'], shapes, strict=True):
        sample.set_metainfo(dict(img_shape=shape, ori_shape=shape))
    data = model.data_preprocessor(batch, training=True)
    assert data['inputs'].shape == (2, 3, 127, 128)
    loss, parts = model.train().parse_losses(model(**data, mode='loss'))
    loss.backward()
    assert loss.isfinite()
    num_layers = 6 if name.startswith('deformabledetr') else 1
    assert sum(name.endswith('loss_bbox') for name in parts) == num_layers
    without = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []
    with torch.no_grad():
        found = model.eval().test_step(batch)
    for sample, (height, width) in zip(found, shapes, strict=True):
        boxes = sample.pred_instances.bboxes
        assert 0 < len(boxes) <= model.test_cfg.max_per_img
        assert boxes.min() >= 0
        assert (boxes.amax(dim=0) <= torch.tensor([width, height] * 2)).all()


def length_of(name: str) -> str:
    recipe = ZOO[name].metadata
    return f'{recipe["Epochs"]}e' if 'Epochs' in recipe else f'{recipe["Iterations"] // 1000}k'


def test_every_part_of_a_name_says_what_the_config_has():
    check_all(ALL_CONFIGS, check_name)


def check_name(name: str) -> None:
    said, model, recipe = NAME.fullmatch(name), load(name).model, ZOO[name].metadata
    assert said is not None
    backbone = model.backbone
    given = backbone.get('attention')
    attention = given.type if isinstance(given, dict) else given
    assert said['attention'] == (None if attention == 'local_global' else attention)
    assert backbone.type.rpartition('.')[2].lower() == said['family']
    arch = backbone.get('arch', backbone.get('depth'))
    assert str(arch['type'] if isinstance(arch, dict) else arch) == said['arch']
    assert re.search(FORMS.get(said['form'], ''), str(model.to_dict()))
    assert recipe['Training Data'] in (DATA.get(said['data']), 'COCO', 'ImageNet-1k')
    assert said['side'] in (str(ZOO[name].input_size[0]), None)
    assert said['length'] in (length_of(name), None)
    if said['head'] == 'gflite':  # trained at the size of its name, too
        loaders = (load(name)[f'{mode}_dataloader'] for mode in ('train', 'val', 'test'))
        steps = [step for loader in loaders for step in loader.dataset.pipeline]
        assert {s.scale for s in steps if s.type == 'Resize'} == {ZOO[name].input_size}


def test_configs_that_do_not_say_their_length_train_as_long_as_the_others_of_their_kind():
    lengths: dict[tuple[str | None, ...], set[str]] = {}
    for name in ALL_CONFIGS:
        said = NAME.fullmatch(name)
        if said['length'] is None:
            lengths.setdefault(said.group('head', 'family', 'data', 'side'), set()).add(
                length_of(name)
            )
    assert {kind: found for kind, found in lengths.items() if len(found) > 1} == {}


def test_synchronized_norms_stand_in_schedules_and_no_config_deletes_what_a_base_says():
    for path in (ROOT / 'configs').rglob('*.py'):
        text = path.read_text()
        assert '_delete_' not in text
        assert path.parent.name == 'schedules' or 'sync_bn =' not in text
        assert not re.search(r'^ *(import|from) |::', text, re.MULTILINE)  # of other packages


SYNCED = (
    'maskrcnn_efficientformerv2_s2_mobile', 'retinanet_mobilevitv2_100', 'rtmdet_swiftformer_xs',
    'segformer_swiftformer_xs_ade20k', 'pspnet_mobilevitv2_050_ade20k',
)  # fmt: skip


@pytest.mark.parametrize('name', SYNCED)
def test_a_distributed_run_turns_every_batch_norm_into_a_trained_synchronized_one(name):
    # as the runner does for this key before it wraps the model
    model = convert_sync_batchnorm(build_empty(name), load(name).sync_bn).train()
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    assert {type(norm) for norm in norms} == {nn.SyncBatchNorm}
    assert all(norm.training and norm.weight.requires_grad for norm in norms)


def test_the_head_of_semantic_fpn_alone_has_synchronized_norms():
    model = build_empty('semfpn_swiftformer_l1_ade20k')
    norms = [(n, m) for n, m in model.named_modules() if isinstance(m, _BatchNorm)]
    kinds = {(name.split('.')[0], isinstance(norm, nn.SyncBatchNorm)) for name, norm in norms}
    assert kinds == {('backbone', False), ('decode_head', True)}
    assert 'sync_bn' not in load('semfpn_swiftformer_l1_ade20k')


def test_the_environment_or_an_option_moves_the_data(monkeypatch):
    option = load_config('maskrcnn_swiftformer_l1', {'data_root': '/elsewhere'})
    monkeypatch.setenv('DATA_ROOT', '/elsewhere')
    for config in (option, load('maskrcnn_swiftformer_l1')):
        assert config.train_dataloader.dataset.data_root == '/elsewhere/'
        assert config.val_evaluator.ann_file == '/elsewhere/annotations/instances_val2017.json'


def test_configs_load_with_mmengine_alone():
    code = (
        'import sys\n'
        "sys.modules.update(dict.fromkeys(('mmdet', 'mmseg', 'mmpretrain', 'mmcv', 'mmeffvit')))\n"
        'from mmengine.config import Config\n'
        'print(sum("model" in Config.fromfile(path) for path in sys.argv[1:]))\n'
    )
    names = [*FEW, ALL_CONFIGS[0]]  # a classifier; the others import nothing more
    printed = succeeded(
        run_python('-c', code, *(ROOT / 'configs' / f'{name}.py' for name in names))
    )
    assert printed.split()[-1] == str(len(names))
