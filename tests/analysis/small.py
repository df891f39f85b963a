"""A small segmentor with random weights on generated shapes, in the files of a run."""

from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.load import load_config
from tests.conftest import ROOT

SEGMENTOR = """
_base_ = [{base!r}]
model = dict(
    backbone=dict(
        _delete_=True, type={backbone!r},
        arch=dict(channels=(8, 16, 20, 32), depths=(1, 1, 1, 1), expansions=(1, 1, 1, 1)),
    ),
    neck=dict(in_channels=[8, 16, 20, 32], out_channels=16),
    decode_head=dict(in_channels=[16] * 4, channels=16, num_classes=5),
)
classes = ('ground', 'circle', 'square', 'triangle', 'star')
test_dataloader = dict(
    num_workers=0, persistent_workers=False, dataset=dict(
        _delete_=True, type='BaseSegDataset', data_root={data!r}, reduce_zero_label=True,
        data_prefix=dict(img_path='images/validation', seg_map_path='annotations/validation'),
        metainfo=dict(classes=classes, palette=[[0] * 3] * 5),
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='LoadAnnotations', reduce_zero_label=True),
            dict(type='PackSegInputs'),
        ],
    ),
)
"""


def save(config: Config, folder: Path) -> tuple[Path, Path]:
    """A config and a checkpoint with random weights, large enough for the heads to matter."""
    # mmengine confuses runs of one second whose configs have one name
    path = folder / f'{config.default_scope}.py'
    config.dump(path)
    init_default_scope(config.default_scope)
    torch.manual_seed(0)
    model = build_model(own_model_config(config))
    for name, parameter in model.named_parameters():
        if name.endswith('weight') and parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        if 'conv_seg' in name:  # blind to what all pixels share, which would give one class
            parameter.data -= parameter.data.mean(dim=-3 if parameter.ndim > 1 else 0, keepdim=True)
    torch.save(dict(state_dict=model.state_dict()), folder / 'epoch_1.pth')
    return path, folder / 'epoch_1.pth'


def save_segmentor(backbone: str, data: Path, folder: Path) -> tuple[Path, Path]:
    """The config and the checkpoint of a Semantic FPN with a PVTv2, or a form of it."""
    base = str(ROOT / 'configs' / 'semfpn_swiftformer_l1_ade20k.py')
    text = SEGMENTOR.format(base=base, data=f'{data}/', backbone=backbone)
    (folder / 'tiny.py').write_text(text)
    return save(load_config(folder / 'tiny.py'), folder)
