"""Configs of classifiers: sizes of the authors' models, recipes of the papers, no errors."""

import pytest
import torch
from mmengine.config import Config

from mmeffvit.analysis.complexity.count import count as complexity
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import load_config
from mmeffvit.train.checks.config import check_config, faults_in
from mmeffvit.zoo import find_model, read_models
from tests.configs.models import CLASSIFIERS, count, load
from tests.conftest import ROOT, require_or_skip
from tests.models.test_counts import CASES
from tests.variants import check_all

require_or_skip('mmpretrain')

import mmeffvit.models.classification  # noqa: E402, F401

BUILT = (  # the smallest of every family, and whose numbers of MACs are nowhere else
    'swiftformer_xs', 'efficientformerv2_s0_mobile_300e', 'shvit_s4_384',
    'mobilevitv2_200_imagenet21k',
)  # fmt: skip
# of the authors' code by width; that of 2.0 is table 9 of arXiv:2206.02680
RATES = {
    '050': (9e-3, 0.004), '075': (9e-3, 0.008), '100': (7.5e-3, 0.013), '125': (4.9e-3, 0.02),
    '150': (3.5e-3, 0.029), '175': (2.6e-3, 0.039), '200': (2e-3, 0.05),
}  # fmt: skip
TEACHER = dict(type='TimmClassifier', model_name='mobilenetv3_small_050')


def test_sizes_in_the_metafile_are_those_of_the_authors_models():
    for family, arch, _, millions, *_ in CASES:
        name = f'classifier_{family["type"].removeprefix("mmeffvit.").lower()}_{arch}'
        # the config of DeiT-B is for the distilled model
        if name in CLASSIFIERS and 'attention' not in family and name != 'classifier_deit_b':
            assert round(find_model(name).parameters / 1e6, 3) == pytest.approx(millions), name


@pytest.mark.parametrize('name', BUILT)
def test_sizes_and_macs_are_those_of_the_model(name):
    model = find_model(f'classifier_{name}')
    result = complexity(str(model.config))
    assert result.total.parameters == model.parameters
    assert result.shape == model.input_size
    assert result.total.macs == pytest.approx(model.macs, rel=0.01)


def test_a_head_for_imagenet_21k_makes_the_model_as_large_as_the_paper_prints():
    # table 8: 28.1 million for width 2.0, which only 10,450 classes give
    assert round(find_model('classifier_mobilevitv2_200_imagenet21k').parameters / 1e6, 1) == 28.1


def test_rates_of_mobilevitv2_are_those_of_the_authors_code():
    for width, rates in RATES.items():
        config = load(f'classifier_mobilevitv2_{width}')
        optimizer = config.optim_wrapper.optimizer
        assert (optimizer.lr, optimizer.weight_decay) == rates
        warmup, cosine = config.param_scheduler
        assert optimizer.lr * warmup.start_factor == pytest.approx(1e-6)
        assert (warmup.end, cosine.type) == (20000, 'CosineAnnealingLR')


MOBIATT = [
    name
    for name in CLASSIFIERS
    if name.startswith(('classifier_deit_', 'classifier_pvtv2_')) or name.endswith('_300e')
]


def test_the_recipe_of_mobile_attention_is_that_of_its_section_5_1():
    """AdamW, 300 epochs, batch 2048, 0.001, cosine, 224 x 224: one recipe for three families."""
    assert len(MOBIATT) == 24
    for name in MOBIATT:
        config, recipe = load(name), find_model(name).metadata
        printed = ('AdamW', 300, 2048, 0.001, '224x224')
        keys = ('Optimizer', 'Epochs', 'Batch Size', 'Learning Rate', 'Input Size')
        assert tuple(recipe[key] for key in keys) == printed
        assert config.param_scheduler[-1].type == 'CosineAnnealingLR'
        assert config.param_scheduler[-1].end == 300
    without = {name for name in CLASSIFIERS if 'EMAHook' not in str(load(name).get('custom_hooks'))}
    assert without == {*MOBIATT}  # every other recipe tests EMA weights


# top-1 of table 1 of Mobile-Attention: original and with Mobile-Attention
TABLE_1 = {
    'deit_t': (72.2, 73.3), 'deit_s': (79.8, 80.0), 'deit_b': (83.4, 84.2),
    'pvtv2_b0': (70.5, 71.5), 'pvtv2_b2': (82.1, 82.6), 'pvtv2_b3': (83.3, 84.0),
    'efficientformerv2_s0': (75.7, 76.0), 'efficientformerv2_s2': (81.6, 82.1),
    'efficientformerv2_l': (83.3, 83.7),
}  # fmt: skip
# of its table 2, all DeiT-S; of tables 3, 6 and 7 of arXiv:2401.16456, 7 and 8 of
# arXiv:2206.02680, and 1 of arXiv:2303.15446
OTHERS = {
    'deit_s_hydra': 73.5, 'deit_s_castling': 79.8, 'deit_s_head_softmax': 79.0,
    'deit_s_squeeze_excite': 78.3, 'deit_s_gated': 77.5, 'deit_s_token_linear': 76.4,
    'shvit_s1_distilled': 74.0, 'shvit_s2_distilled': 76.2, 'shvit_s3_distilled': 78.3,
    'shvit_s4_distilled': 80.2, 'shvit_s3_multi_head': 77.7, 'shvit_s3_none': 76.3,
    'shvit_s3_partial_eighth': 77.1, 'shvit_s3_partial_half': 77.5, 'shvit_s4_384': 81.0,
    'shvit_s4_512': 82.0, 'mobilevitv2_050_384': 72.1, 'mobilevitv2_075_384': 77.0,
    'mobilevitv2_125_384': 80.9, 'mobilevitv2_150_384': 81.5, 'mobilevitv2_175_384': 82.0,
    'mobilevitv2_200_384': 82.2, 'mobilevitv2_150_from21k': 81.5,
    'mobilevitv2_150_from21k_384': 82.6, 'mobilevitv2_175_from21k': 81.9,
    'mobilevitv2_175_from21k_384': 82.9, 'mobilevitv2_150_imagenet21k': 44.5,
    'mobilevitv2_175_imagenet21k': 45.8, 'efficientformer_l1_self': 79.9,
    'efficientformer_l1_additive': 79.7,
}  # fmt: skip


def test_published_accuracies_are_those_of_the_tables():
    source, found = 'Mobile Attention (ICML 2024) table 1', {}
    for name in TABLE_1:
        family = name.partition('_')[0]
        length = '_300e' if family == 'efficientformerv2' else ''  # the other recipe has 450 epochs
        models = (name + length, f'{name}_mobile{length}')
        metrics = [find_model(f'classifier_{m}').metrics_by_source()[source] for m in models]
        found[name] = tuple(m['Top 1 Accuracy'] for m in metrics)
    assert found == TABLE_1
    models = {name: find_model(f'classifier_{name}').published()[1] for name in OTHERS}
    assert {name: metrics['Top 1 Accuracy'] for name, metrics in models.items()} == OTHERS


def test_layers_of_the_ablations_are_those_that_the_rows_name():
    found = {}
    for name in OTHERS:
        if '_s3_' in name or name.startswith('deit'):
            options = load(f'classifier_{name}').model.backbone
            given = options.get('attention', dict(type='single_head'))
            found[name] = (given['type'], options.get('partial_ratio'))
    assert found == {
        'deit_s_hydra': ('hydra', None), 'deit_s_castling': ('castling', None),
        'deit_s_head_softmax': ('head_softmax', None), 'deit_s_gated': ('gated', None),
        'deit_s_squeeze_excite': ('squeeze_excite', None),
        'deit_s_token_linear': ('token_linear', None),
        'shvit_s3_distilled': ('single_head', None), 'shvit_s3_multi_head': ('multi_head', None),
        'shvit_s3_none': ('none', None), 'shvit_s3_partial_eighth': ('single_head', 1 / 8),
        'shvit_s3_partial_half': ('single_head', 1 / 2),
    }  # fmt: skip


def test_fine_tuning_from_21k_is_that_of_table_10():
    """Columns 1 to 3: clipping in all, augmentation in the last two, a constant rate in 1 and 3."""
    for name, augmented, constant in (
        ('100_384', False, True), ('200_from21k', True, False), ('200_from21k_384', True, True)
    ):  # fmt: skip
        config = load(f'classifier_mobilevitv2_{name}')
        assert config.optim_wrapper.clip_grad.max_norm == 10
        steps = {step.type for step in config.train_dataloader.dataset.pipeline}
        assert ({'torchvision/RandAugment', 'RandomErasing'} <= steps) == augmented
        kinds = {a.type for a in (config.model.get('train_cfg') or {}).get('augments', ())}
        assert kinds == ({'Mixup', 'CutMix'} if augmented else set())
        assert (config.param_scheduler[-1].type == 'ConstantLR') == constant


def test_the_head_fits_the_preprocessor_and_the_crop_the_metafile():
    check_all(CLASSIFIERS, check_head_and_crop)


def check_head_and_crop(name: str) -> None:
    config, model = load(name), read_models()[name]
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
def test_a_step_of_training_has_no_errors(timm, name):
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
