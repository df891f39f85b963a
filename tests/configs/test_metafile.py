"""The metafile agrees with the configs, and the published sizes with the models."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.analysis.complexity.count import count as complexity
from mmeffvit.analysis.complexity.forward import run_model
from mmeffvit.config.values import uses_mmpretrain
from mmeffvit.models import families
from mmeffvit.zoo import find_model, read_models
from tests.configs.models import (
    ALL_CONFIGS,
    CONFIGS,
    build_empty,
    count,
    load,
    one_of_each_head_and_family,
    skip_without,
)
from tests.variants import check_all, sampled

MODELS = {name: model for name, model in read_models().items() if model.config}
BACKBONES = {name: model for name, model in read_models().items() if not model.config}
PUBLISHED = [name for name, model in MODELS.items() if 'Published Size' in model.metadata]
# deformable attention fails on the meta device and takes ten seconds on the CPU: one is enough,
# with the variants
UNCOUNTED = (
    'deformabledetr_resnet_50',
    'deformabledetr_resnet_50_single_head',
    'deformabledetr_resnet_50_single_head_projected',
    'deformabledetr_shvit_s4_single_head',
)
LONG = 'deformabledetr_swiftformer_l1_single_head'
BUILT = (  # small classifiers of every family, and those whose MACs are nowhere else
    'classifier_swiftformer_xs', 'classifier_efficientformerv2_s0_mobile_300e',
    'classifier_shvit_s4_384', 'classifier_mobilevitv2_200_imagenet21k',
    'classifier_mobilevitv2_125', 'classifier_efficientformerv2_l',
)  # fmt: skip
TYPES = {name.lower(): name for name in families()}
FEW = one_of_each_head_and_family()
SMALLEST = [f'{name.lower()}_{next(iter(cls.variants))}' for name, cls in families().items()]


class ElementCounter(TorchDispatchMode):
    """Operations of norms and bilinear resizing, which torch's own counter ignores.

    The published sums count 2 per element of a batch norm, 5 of a group norm, 4 of a resized map.
    """

    COSTS = {'batch_norm': 2, 'group_norm': 5, 'upsample_bilinear': 4}

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for name, cost in self.COSTS.items():
            if name in func.name():
                self.total += cost * (out[0] if isinstance(out, tuple) else out).numel()
        return out


def number(printed: str) -> tuple[float, int]:
    """``'3.6 M'`` or ``'15.4 G'`` as a number, and its printed decimals."""
    value, unit = printed.split()
    return float(value) * {'M': 1e6, 'G': 1e9}[unit], len(value.partition('.')[2])


def main_parts(name: str) -> nn.Module:
    """The model on the meta device, without its auxiliary head, which authors do not count."""
    model = build_empty(name).eval()
    if getattr(model, 'auxiliary_head', None) is not None:
        del model.auxiliary_head
    return model


def test_every_config_has_an_entry_and_every_entry_a_config():
    assert sorted(MODELS) == ALL_CONFIGS
    assert all(model.config.is_file() for model in MODELS.values())


@pytest.mark.parametrize('name', [*sampled(CONFIGS, {*FEW} - {LONG}), *BUILT])
def test_parameters_and_macs_are_those_of_the_model(name):
    model = MODELS[name]
    if name in UNCOUNTED:
        assert count(build_empty(name)) == model.parameters
        return
    if 'Requires' in model.metadata:
        skip_without(model.metadata['Requires'])
    result = complexity(str(model.config))
    assert result.total.parameters == model.parameters
    assert result.shape == model.input_size
    # they depend slightly on the implementation
    assert result.total.macs == pytest.approx(model.macs, rel=0.01)


@pytest.mark.parametrize('name', sampled([*BACKBONES], SMALLEST))
def test_the_size_of_a_backbone_is_in_the_metafile(name):
    family, _, arch = name.partition('_')
    model = BACKBONES[name]
    total = complexity(f'{TYPES[family]}:{arch}', shape=model.input_size).total
    assert total.parameters == model.parameters
    assert total.macs == pytest.approx(model.macs, rel=0.01)


@pytest.mark.parametrize('name', sampled(PUBLISHED, FEW))
def test_sizes_are_the_published_ones(name):
    printed = MODELS[name].metadata['Published Size']
    model = main_parts(name)
    parameters, decimals = number(printed['Parameters'])
    assert round(count(model) / 1e6, decimals) == parameters / 1e6
    if 'FLOPs' not in printed:
        return
    with torch.no_grad(), FlopCounterMode(display=False) as products:
        run_model(model, shape=MODELS[name].input_size, proposals=0)
    with torch.no_grad(), ElementCounter() as elements:
        run_model(model, shape=MODELS[name].input_size, proposals=0)
    macs = products.get_total_flops() / 2
    # the paper includes norms and resizing in some, but not in its largest PSPNet
    counts = (macs, macs + elements.total)
    assert min(abs(c / number(printed['FLOPs'])[0] - 1) for c in counts) < 0.01


def test_recipes_and_backbones_are_those_of_the_metafile():
    check_all(ALL_CONFIGS, check_recipe)
    check_all([name for name in CONFIGS if not name.endswith('_shapes')], check_backbone)


def check_recipe(name: str) -> None:
    config, recipe = load(name), MODELS[name].metadata
    assert (recipe.get('Requires') == 'mmpretrain') == uses_mmpretrain(config.model)
    optimizer = config.optim_wrapper.optimizer
    assert optimizer.type == recipe['Optimizer']
    assert (optimizer.lr, optimizer.weight_decay) == (
        recipe['Learning Rate'],
        recipe['Weight Decay'],
    )
    assert config.auto_scale_lr.base_batch_size == recipe['Batch Size']
    if 'Iterations' in recipe:
        assert config.train_cfg.max_iters == recipe['Iterations']
    else:
        assert config.train_cfg.max_epochs == recipe['Epochs']
    # the learning rate ends where the training ends
    assert config.param_scheduler[-1].end == recipe.get('Iterations', recipe.get('Epochs'))
    gpus = recipe['Batch Size'] / config.train_dataloader.batch_size
    assert gpus in (1, 2, 4, 8)


def check_backbone(name: str) -> None:
    """It starts from its released weights, at the size of the images."""
    backbone = load(name).model.backbone
    if not backbone.type.startswith('mmeffvit.'):
        return
    family = backbone.type.removeprefix('mmeffvit.').lower()
    assert backbone.init_cfg == dict(
        type='Pretrained', checkpoint=find_model(f'{family}_{backbone.arch}').weights
    )
    if family == 'efficientformerv2':
        assert backbone.resolution == min(MODELS[name].input_size)
