"""Weights of plain backbones in their Mobile-Attention form, and distillation of the rest."""

from ast import literal_eval

import pytest
import torch

from mmeffvit.config.load import open_config
from mmeffvit.models import PVTv2, families
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.registry import MODELS
from mmeffvit.train.distillation import MapDistillation, agreement
from mmeffvit.train.engine.options import TrainOptions
from mmeffvit.train.engine.train import train
from tests.conftest import ROOT, message_of, run_tool_here, succeeded
from tests.models.test_contract import TINY

CONVERTER = 'model_converters/convert_weights.py'
CONFIGS = sorted((ROOT / 'configs' / 'distillation').glob('*.py'))


def config(family: str, **options: object) -> dict:
    return dict(type=f'mmeffvit.{family}', arch=TINY[family], **options)


def test_the_teacher_stays_as_it_is_and_has_no_gradients():
    model = MapDistillation(config('PVTv2'), config('PVTv2', drop_path_rate=0.5)).train()
    assert model.backbone.training
    assert not any(module.training for module in model.teacher.modules())
    losses = model(torch.randn(2, 3, 64, 64), mode='loss')
    model.parse_losses(losses)[0].backward()
    assert all(p.grad is not None for p in model.backbone.parameters())
    assert not any(p.requires_grad for p in model.teacher.parameters())


def test_losses_are_squares_of_relative_errors():
    model = MapDistillation(config('PVTv2'), config('PVTv2')).double().eval()
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    losses = model(x, mode='loss')
    found = agreement(model.backbone, model.teacher, x)
    for i, (feature, target) in enumerate(zip(model(x), model.teacher(x), strict=True)):
        expected = (feature - target).norm() / target.norm()
        assert float(losses[f'loss_map_{i}']) == pytest.approx(float(expected) ** 2, rel=1e-5)
        assert found[i].relative_error == pytest.approx(float(expected), rel=1e-5)
        cosines = torch.cosine_similarity(feature, target)  # of the channels of a cell
        assert found[i].cosine == pytest.approx(float(cosines.mean()), rel=1e-5)
    same = agreement(model.teacher, model.teacher, x)
    assert [(a.relative_error, round(a.cosine, 6)) for a in same] == [(0, 1)] * 4


def test_backbones_with_other_maps_are_rejected():
    with pytest.raises(ValueError, match='choose the same variant and out_indices'):
        MapDistillation(config('PVTv2', out_indices=(1, 2)), config('PVTv2'))


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_a_config_names_two_forms_of_one_variant_and_its_weights(path):
    model = open_config(path).model
    plain = model.teacher.type.removeprefix('mmeffvit.')
    assert model.backbone.type == f'mmeffvit.{plain}MobiAtt'
    assert model.backbone.init_cfg == model.teacher.init_cfg
    assert model.backbone.arch == model.teacher.arch
    name = f'{plain.lower()}_{model.teacher.arch}_mobile'
    assert path.stem == name
    assert tuple(model.data_preprocessor.mean) == families()[plain].input_mean


def test_a_run_gives_a_checkpoint_that_loads_as_a_backbone(shapes, tmp_path, log):
    released = tmp_path / 'plain.pth'
    plain = PVTv2(TINY['PVTv2']).state_dict()
    torch.save(plain, released)
    options = {'data_root': str(shapes), 'train_cfg.max_epochs': 1}
    options |= {
        'train_dataloader.dataset.metainfo.classes': ('circle', 'square', 'triangle', 'star'),
        'train_dataloader.batch_size': 6,
        'train_dataloader.num_workers': 0,
        'train_dataloader.dataset.pipeline.2.scale': (64, 64),
    }
    for part in ('backbone', 'teacher'):
        options[f'model.{part}.arch'] = dict(TINY['PVTv2'], _delete_=True)
        options[f'model.{part}.init_cfg.checkpoint'] = str(released)
    path = ROOT / 'configs' / 'distillation' / 'pvtv2_b0_mobile.py'
    train(str(path), TrainOptions(work_dir=tmp_path / 'run', cfg_options=options))
    saved = read_content(tmp_path / 'run' / 'epoch_1.pth', 'cpu')['state_dict']
    backbone = MODELS.build(config('PVTv2MobiAtt'))
    report = backbone.load_pretrained(tmp_path / 'run' / 'epoch_1.pth')
    for key, value in backbone.state_dict().items():
        assert torch.equal(value, saved[f'backbone.{key}'])
    assert {key.split('.')[0] for key in report.dropped} == {'teacher'}
    assert report.missing == ()
    for key, value in plain.items():
        assert torch.equal(saved[f'teacher.{key}'], value)
        if f'backbone.{key}' in saved:  # two steps away
            torch.testing.assert_close(saved[f'backbone.{key}'], value, atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ('family', 'into', 'lost', 'reason'),
    [
        (
            'DeiT',
            'DeiTMobiAtt:t:class_tokens=0',
            ['stem.class_token'],
            'DeiTMobiAtt has no such layer in this form',
        ),
        ('PVTv2', 'PVTv2MobiAtt:b0', ['stages.2.blocks.0.attention.reduce.weight'], 'in this form'),
        (
            'EfficientFormerV2',
            'EfficientFormerV2MobiAtt:s0:out_indices=(0,1,2)',
            ['stages.2.blocks.5.attention.mixer.position_bias.table', 'stages.3.blocks.0.'],
            'no map of this stage is returned',
        ),
    ],
)
def test_the_converter_reports_every_tensor(family, into, lost, reason, tmp_path):
    arch = into.split(':')[1]
    plain = families()[family](arch).state_dict()
    torch.save(plain, tmp_path / 'plain.pth')
    out = tmp_path / 'mobile.safetensors'
    printed = succeeded(run_tool_here(CONVERTER, tmp_path / 'plain.pth', out, '--into', into))
    *lines, _, _ = printed.strip().splitlines()
    assert {line.split(maxsplit=1)[0] for line in lines} == {'loaded', 'ignored'}
    listed = [line.split()[1].rstrip(':,') for line in lines]
    assert sorted(listed) == sorted(plain)
    for key in lost:
        assert any(line.startswith(f'ignored     {key}') for line in lines), key
    assert any(line.endswith(reason) or reason in line for line in lines)
    name, arch, *rest = into.split(':')
    options = {key: literal_eval(value) for key, value in (part.split('=') for part in rest)}
    assert families()[name](arch, **options).load_pretrained(out).missing == ()


def test_the_converter_names_options_that_exclude_each_other(tmp_path):
    both = ('--into', 'PVTv2:b0', '--use-ema')
    message = message_of(run_tool_here(CONVERTER, tmp_path / 'x.pth', '--dry-run', *both))
    assert '--into does not go with --use-ema' in message
