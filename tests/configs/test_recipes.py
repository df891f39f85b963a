"""Heads and recipes are those of mmdet's and mmseg's own configs, up to what is listed here."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import PARAM_SCHEDULERS

from tests.configs.models import CONFIGS, load, theirs
from tests.conftest import ROOT
from tests.variants import check_all

WHOLE = (
    'model', 'train_dataloader', 'val_dataloader', 'val_evaluator', 'optim_wrapper',
    'param_scheduler', 'train_cfg', 'custom_hooks',
)  # fmt: skip
# differences due to the backbone, and values that mmdet and mmseg set although they are
# the defaults
ANYWHERE = (
    'model.backbone.*', '*.in_channels', 'model.pretrained', 'model.train_cfg', '*.backend_args',
    '*.format_only', '*.use_sigmoid', '*.norm_cfg.requires_grad', '*.data_root', '*.num_workers',
    '*.persistent_workers', '*.pin_memory', 'optim_wrapper.constructor',
)  # fmt: skip
SGD = ('optim_wrapper.optimizer.*', 'param_scheduler.0.start_factor')
SYNCED_BY_RUNNER = '*.norm_cfg.type'  # `sync_bn` of our config says it for the full model
# keys in which the variants of a config may differ
SIZES = (
    '*.in_channels', '*.channels', 'model.backbone.arch', 'model.backbone.drop_path_rate',
    'model.backbone.attention.type', 'model.backbone.init_cfg.checkpoint',
)  # fmt: skip
PARENT = re.compile(r"^_base_ = '\./(\w+)\.py'$", re.MULTILINE)
# ours, with the numbers of theirs
SAME = ('mmeffvit.EMAHook', 'mmeffvit.CocoMetric')
SLIM = ('*.align_corners', '*.in_index', '*.avg_non_ignore', 'model.decode_head.type')


@dataclass(frozen=True)
class Comparison:
    """A config of ours to be compared with one of theirs.

    Args:
        ours: Name of the config.
        package: 'mmdet' or 'mmseg'.
        theirs: Path among its configs.
        differs: Patterns of dotted keys, of all that differs.
        sections: Dotted keys of what is compared.
    """

    ours: str
    package: str
    theirs: str
    differs: tuple[str, ...] = ()
    sections: tuple[str, ...] = WHOLE

    def __str__(self) -> str:
        return self.ours


COMPARISONS = [
    Comparison(
        'maskrcnn_swiftformer_xs', 'mmdet', 'mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py',
        (*SGD, 'train_dataloader.batch_size'),
    ),
    Comparison(
        'maskrcnn_efficientformerv2_s0', 'mmdet', 'mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py', SGD
    ),
    Comparison(
        'maskrcnn_shvit_s4', 'mmdet', 'mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py',
        (SGD[0], 'model.neck.*'),
    ),
    Comparison(
        'retinanet_swiftformer_l1', 'mmdet', 'retinanet/retinanet_r50_fpn_1x_coco.py',
        (*SGD, 'train_dataloader.batch_size', 'model.neck.start_level'),
    ),
    Comparison(
        'retinanet_shvit_s4', 'mmdet', 'retinanet/retinanet_r50_fpn_1x_coco.py',
        (SGD[0], 'model.neck.*'),
    ),
    Comparison(
        'deformabledetr_resnet_50', 'mmdet',
        'deformable_detr/deformable-detr_r50_16xb2-50e_coco.py',
        # arguments of the attention are mmcv's defaults
        ('model.*coder.layer_cfg.*_attn_cfg.*', 'model.bbox_head.embed_dims',
         'train_dataloader.batch_size'),
    ),
    *(
        Comparison(
            name, 'mmdet', 'deformable_detr/deformable-detr_r50_16xb2-50e_coco.py',
            ('model.*coder.layer_cfg.*_attn_cfg.*', 'model.bbox_head.embed_dims', 'model.type',
             'train_dataloader.batch_size', *neck),
        )
        for name, neck in (
            ('deformabledetr_swiftformer_l1_single_head', ()),
            ('deformabledetr_shvit_s4_single_head', ('model.neck.*',)),
        )
    ),
    Comparison(
        'rtmdet_swiftformer_xs', 'mmdet', 'rtmdet/rtmdet_tiny_8xb32-300e_coco.py',
        # RGB where CSPNeXt reads BGR
        ('optim_wrapper.optimizer.lr', 'param_scheduler.1.eta_min', 'model.data_preprocessor.*',
         'model.use_syncbn', SYNCED_BY_RUNNER),
    ),
    Comparison(
        'ssdlite_mobilevitv2_050', 'mmdet', 'ssd/ssd300_coco.py',
        ('model.train_cfg.sampler.type',),
        ('model.train_cfg', 'model.bbox_head.bbox_coder', 'model.bbox_head.num_classes'),
    ),
    Comparison(
        'segformer_swiftformer_xs_ade20k', 'mmseg',
        'segformer/segformer_mit-b0_8xb2-160k_ade20k-512x512.py',
        # test images padded to multiples of 32; other patterns for `norm_decay_mult` and `head`
        ('model.decode_head.channels', 'model.decode_head.type', SYNCED_BY_RUNNER,
         'optim_wrapper.paramwise_cfg.*', 'train_dataloader.batch_size',
         'val_dataloader.dataset.pipeline.*'),
    ),
    Comparison(
        'semfpn_poolformer_s12_ade20k', 'mmseg',
        'poolformer/fpn_poolformer_s12_8xb4-40k_ade20k-512x512.py',
        # theirs uses mixed precision
        ('optim_wrapper.type',),
        ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg', 'val_dataloader',
         'train_dataloader.batch_size'),
    ),
    Comparison(
        'semfpn_efficientformerv2_s0_ade20k', 'mmseg',
        'poolformer/fpn_poolformer_s12_8xb4-40k_ade20k-512x512.py',
        # theirs uses mixed precision
        ('optim_wrapper.type', 'param_scheduler.0.eta_min'),
        ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg', 'val_dataloader',
         'train_dataloader.batch_size'),
    ),
    Comparison(
        'semfpn_swiftformer_l1_ade20k', 'mmseg', 'sem_fpn/fpn_r50_4xb4-160k_ade20k-512x512.py',
        (),
        ('model', 'train_dataloader'),
    ),
    Comparison(
        'pspnet_mobilevitv2_050_ade20k', 'mmseg',
        'pspnet/pspnet_r50-d8_4xb4-80k_ade20k-512x512.py',
        (*SLIM, SYNCED_BY_RUNNER, 'model.auxiliary_head.channels', 'model.decode_head.pool_s*'),
        ('model.decode_head', 'model.auxiliary_head', 'model.test_cfg'),
    ),
    Comparison(
        'deeplabv3_mobilevitv2_050_ade20k', 'mmseg',
        'deeplabv3/deeplabv3_r50-d8_4xb4-80k_ade20k-512x512.py',
        # our branch without dilation is not in the list
        (*SLIM, SYNCED_BY_RUNNER, 'model.auxiliary_head.channels', 'model.decode_head.dilations'),
        ('model.decode_head', 'model.auxiliary_head', 'model.test_cfg'),
    ),
]  # fmt: skip


def scalars(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """All values that are not dicts, with their dotted keys."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from scalars(inner, f'{key}.{name}')
    elif isinstance(value, list | tuple) and any(isinstance(v, dict | list | tuple) for v in value):
        for index, inner in enumerate(value):
            yield from scalars(inner, f'{key}.{index}')
    else:
        yield key, list(value) if isinstance(value, tuple) else value


def section(config: Config, key: str) -> dict[str, Any]:
    value = config.to_dict()
    for name in key.split('.'):
        value = value.get(name) or {}
    found = dict(scalars(value, key))
    return {k: v.removeprefix('mmeffvit.') if v in SAME else v for k, v in found.items()}


def differences(ours: Config, theirs: Config, sections: tuple[str, ...]) -> set[str]:
    found = set()
    for key in sections:
        a, b = section(ours, key), section(theirs, key)
        found |= {k for k in a.keys() | b.keys() if a.get(k, ...) != b.get(k, ...)}
    return found


@pytest.mark.parametrize('comparison', COMPARISONS, ids=str)
def test_nothing_else_differs_from_their_config(comparison):
    found = differences(
        load(comparison.ours), theirs(comparison.package, comparison.theirs), comparison.sections
    )
    found = {key for key in found if not any(fnmatchcase(key, p) for p in ANYWHERE)}
    listed = {key: [p for p in comparison.differs if fnmatchcase(key, p)] for key in found}
    assert [key for key, patterns in sorted(listed.items()) if not patterns] == []
    needless = set(comparison.differs).difference(*listed.values())
    assert needless == set()


def test_rtmdet_learns_at_half_the_rate_of_theirs():
    (comparison,) = (c for c in COMPARISONS if c.ours.startswith('rtmdet'))
    ours, other = load(comparison.ours), theirs(comparison.package, comparison.theirs)
    assert ours.optim_wrapper.optimizer.lr == other.optim_wrapper.optimizer.lr / 2
    assert ours.param_scheduler[1].eta_min == other.param_scheduler[1].eta_min / 2


VARIANTS = {
    name: parent[1]
    for name in CONFIGS
    if (parent := PARENT.search((ROOT / 'configs' / f'{name}.py').read_text()))
    and not name.endswith(('_shapes', '_single_head', '_projected'))
}


def test_a_variant_differs_from_the_config_it_inherits_from_in_sizes_alone():
    check_all(VARIANTS, check_variant)


def check_variant(name: str) -> None:
    # the length of the training is compared with the metafile
    found = differences(load(name), load(VARIANTS[name]), ('model', *WHOLE[1:5]))
    assert [key for key in found if not any(fnmatchcase(key, p) for p in SIZES)] == []


@pytest.mark.parametrize(
    ('name', 'epoch', 'length', 'peak'),
    [
        ('ssdlite_mobilevitv2_050', 916, 200, 9e-4),
        ('pspnet_mobilevitv2_050_voc12', 1, 50_000, 5e-4),
    ],
)
def test_rates_rise_for_500_iterations_and_follow_a_cosine_as_in_cvnets(name, epoch, length, peak):
    config = load(name)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=config.optim_wrapper.optimizer.lr)
    warm_up, cosine = (
        PARAM_SCHEDULERS.build(scheduler, default_args=dict(optimizer=optimizer))
        for scheduler in config.param_scheduler
    )
    rates = []
    for iteration in range(max(3 * epoch, 600)):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        warm_up.step()
        if not (iteration + 1) % epoch:
            cosine.step()
    assert [rates[0], max(rates)] == pytest.approx([peak / 10, peak], rel=1e-3)
    assert rates.index(max(rates)) in (499, 500)
    part = (1 + math.cos(math.pi * (iteration // epoch) / length)) / 2
    assert rates[-1] == pytest.approx(1e-6 + (peak - 1e-6) * part, rel=1e-6)


def test_the_single_head_config_differs_from_the_stock_one_in_nothing_else():
    names = 'deformabledetr_resnet_50', 'deformabledetr_resnet_50_single_head'
    stock, single = (load(name).to_dict() for name in names)
    chosen = dict(
        encoder=[1, 2, 3], decoder=[1, 2, 3], attended=64, attention='split', ffn_channels=None
    )
    stock['model'] |= dict(type='mmeffvit.SingleHeadDeformableDETR', single_head=chosen)
    assert single == stock
