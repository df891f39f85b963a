"""Configs of classifiers: sizes of the authors' models, recipes of the papers, no faults."""

import pytest
import torch
from mmengine.config import Config

from mmeffvit.checks.config.check import check_config, faults_in
from mmeffvit.complexity.count import count as complexity
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import load_config
from mmeffvit.zoo import find_model, read_models
from tests.configs.models import CLASSIFIERS, count, load
from tests.conftest import ROOT, require_or_skip

require_or_skip('mmpretrain')

import mmeffvit.classification  # noqa: E402, F401

# thousands of parameters of the authors' models, with both heads where there are two
OFFICIAL = {
    'swiftformer_xs': 3475, 'swiftformer_s': 6092, 'swiftformer_l1': 12058, 'swiftformer_l3': 28495,
    'efficientformerv2_s0': 3600, 'efficientformerv2_s1': 6186, 'efficientformerv2_s2': 12710,
    'efficientformerv2_l': 26322, 'shvit_s1': 6331, 'shvit_s2': 11483, 'shvit_s3': 14245,
    'shvit_s4': 16588, 'mobilevitv2_050': 1371, 'mobilevitv2_075': 2866, 'mobilevitv2_100': 4902,
    'mobilevitv2_125': 7478, 'mobilevitv2_150': 10595, 'mobilevitv2_175': 14252,
    'mobilevitv2_200': 18449,
}  # fmt: skip
BUILT = (  # the smallest of every family, and whose numbers of multiply-adds are nowhere else
    'swiftformer_xs', 'efficientformerv2_mobiatt_s0', 'shvit_s4_384', 'mobilevitv2_200_imagenet21k',
)  # fmt: skip
# of arXiv:2206.02680, table 9, by width
RATES = {'050': (9e-3, 0.004), '100': (7.5e-3, 0.013), '150': (3.5e-3, 0.029), '200': (2e-3, 0.05)}
TEACHER = dict(type='TimmClassifier', model_name='mobilenetv3_small_050')


def test_sizes_in_the_metafile_are_those_of_the_authors_models():
    found = {name: round(find_model(f'classifier_{name}').parameters / 1000) for name in OFFICIAL}
    assert found == OFFICIAL


@pytest.mark.parametrize('name', BUILT)
def test_sizes_and_multiply_adds_are_those_of_the_model(name):
    model = find_model(f'classifier_{name}')
    result = complexity(str(model.config))
    assert result.total.parameters == model.parameters
    assert result.shape == model.input_size
    assert result.total.multiply_adds == pytest.approx(model.macs, rel=0.01)


def test_a_head_for_imagenet_21k_makes_the_model_as_large_as_the_paper_prints():
    # table 10: 28.1 million for width 2.0, which only 10,450 classes give
    assert round(find_model('classifier_mobilevitv2_200_imagenet21k').parameters / 1e6, 1) == 28.1


@pytest.mark.parametrize('width', RATES)
def test_rates_of_mobilevitv2_are_those_of_the_paper(width):
    optimizer = load(f'classifier_mobilevitv2_{width}').optim_wrapper.optimizer
    assert (optimizer.lr, optimizer.weight_decay) == RATES[width]


@pytest.mark.parametrize('name', CLASSIFIERS)
def test_the_head_fits_the_backbone_and_the_crop_the_metafile(name):
    config, model = load(name), read_models()[name]
    family = config.model.backbone.type.removeprefix('mmeffvit.').lower()
    assert name.startswith(f'classifier_{family}_')
    assert config.model.backbone.arch in name.split('_')
    assert ('mobiatt' in name) == (config.model.backbone.get('attention') == 'mobile')
    crops = [step.crop_size for step in config.test_dataloader.dataset.pipeline
             if step.type == 'CenterCrop']  # fmt: skip
    scales = [step.scale for step in config.train_dataloader.dataset.pipeline
              if step.type == 'RandomResizedCrop']  # fmt: skip
    assert (crops * 2, scales * 2) == (list(model.input_size),) * 2
    assert config.model.head.num_classes == config.model.data_preprocessor.num_classes


def without_large_teacher(name: str, **options: object) -> Config:
    config = load_config(ROOT / 'configs' / f'{name}.py', options)
    if 'teacher' in config.model:
        config.model.teacher = TEACHER
    return config


@pytest.mark.parametrize('name', ['swiftformer_xs', 'mobilevitv2_050'])
def test_a_step_of_training_has_no_faults(timm, name):
    findings = check_config(without_large_teacher(f'classifier_{name}'))
    assert faults_in(findings) == []
    texts = '\n'.join(map(str, findings))
    assert 'passed: 1000 classes in all heads and in the data' in texts
    assert 'passed: all trainable parameters get a gradient' in texts
    assert 'gets RGB with mean' in texts
    assert 'could not' not in texts


@pytest.mark.parametrize(
    ('options', 'messages'),
    [
        (
            {'model.head.num_classes': 10, 'model.data_preprocessor.to_rgb': False},
            ('head (ClassifierHead) has num_classes=10, but the', 'but gets BGR'),
        ),
        (
            {'model.head.in_channels': 64},
            ('head (ClassifierHead) has in_channels=64, but maps of 320 channels',),
        ),
    ],
)
def test_a_wrong_head_and_wrong_colors_are_found(options, messages):
    config = without_large_teacher('classifier_shvit_s1', **options)
    texts = '\n'.join(map(str, check_config(config)))
    assert [message for message in messages if message not in texts] == []


def test_every_head_of_a_classifier_has_the_channels_of_its_map():
    for name in ('classifier_mobilevitv2_125', 'classifier_efficientformerv2_l'):
        config = load_config(ROOT / 'configs' / f'{name}.py')
        with isolated('mmpretrain'), torch.device('meta'):
            model = build_model(own_model_config(config))
        assert model.backbone.channels == (model.head.in_channels,)
        assert count(model) == find_model(name).parameters
