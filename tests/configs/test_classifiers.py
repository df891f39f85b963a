"""Configs of classifiers: sizes of the authors' models, recipes of the papers, no errors."""

import pytest
from mmengine.config import Config

from mmeffvit.config.load import load_config
from mmeffvit.train.checks.config import check_config, faults_in
from mmeffvit.zoo import find_model, read_models
from tests.configs.models import CLASSIFIERS, load
from tests.conftest import ROOT, require_or_skip
from tests.models.test_counts import CASES
from tests.variants import check_all

require_or_skip('mmpretrain')

import mmeffvit.models.classification  # noqa: E402, F401

TEACHER = dict(type='TimmClassifier', model_name='mobilenetv3_small_050')


def test_sizes_in_the_metafile_are_those_of_the_authors_models():
    for family, arch, _, millions, *_ in CASES:
        name = f'classifier_{family["type"].removeprefix("mmeffvit.").lower()}_{arch}'
        # the config of DeiT-B is for the distilled model
        if name in CLASSIFIERS and 'attention' not in family and name != 'classifier_deit_b':
            assert round(find_model(name).parameters / 1e6, 3) == pytest.approx(millions), name


def test_a_head_for_imagenet_21k_makes_the_model_as_large_as_the_paper_prints():
    # table 8: 28.1 million for width 2.0, which only 10,450 classes give
    assert round(find_model('classifier_mobilevitv2_200_imagenet21k').parameters / 1e6, 1) == 28.1


def test_rates_of_mobilevitv2_rise_from_a_millionth_as_in_the_authors_code():
    for width in ('050', '075', '100', '125', '150', '175', '200'):
        config = load(f'classifier_mobilevitv2_{width}')
        warmup, cosine = config.param_scheduler
        rate = config.optim_wrapper.optimizer.lr
        assert rate * warmup.start_factor == pytest.approx(1e-6)
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


def test_a_step_of_training_has_no_errors(timm):
    findings = check_config(without_large_teacher('classifier_swiftformer_xs'))
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
