"""The public API as a type checker sees it: checked by `make types`, never run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import assert_type

import mmeffvit
from mmeffvit import (
    ExportedPredictor,
    Predictor,
    get_model,
    list_models,
    push_to_hub,
    save_pretrained,
)
from mmeffvit.deploy import fuse
from mmeffvit.errors import UserError
from mmeffvit.inference.results import ClassScores, Detections, LabelMap
from mmeffvit.models import Backbone, SHViT, SwiftFormer, families
from mmeffvit.models.checkpoints import Checkpoint, CheckpointError, open_checkpoint
from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention
from mmeffvit.models.necks import TransposedFPN
from mmeffvit.zoo import Model, find_model

assert_type(mmeffvit.__version__, str)
assert_type(mmeffvit.resource_dir('configs'), Path)


def build() -> nn.Module:
    backbone = SHViT('s1', out_indices=(0, 1, 2))
    assert_type(backbone.channels, tuple[int, ...])
    assert_type(backbone.strides, tuple[int, ...])
    assert_type(backbone.forward(torch.zeros(1, 3, 64, 64)), tuple[Tensor, ...])
    assert_type(families(), dict[str, type[Backbone]])
    neck = TransposedFPN(in_channels=backbone.channels, out_channels=64, num_finer=2)
    attention = SeparableSelfAttention(64)
    assert_type(attention.forward(torch.zeros(1, 64, 4, 9)), Tensor)
    return fuse(nn.Sequential(SwiftFormer('xs'), neck, attention))


def models() -> nn.Module:
    assert_type(list_models(), list[str])
    assert_type(find_model('shvit_s4'), Model)
    model = get_model('maskrcnn_shvit_s4', cfg_options={'model.bbox_head.num_classes': 3})
    assert_type(model, nn.Module)
    try:
        assert_type(open_checkpoint(Path('weights.pth')), Checkpoint)
    except (CheckpointError, UserError) as error:
        assert_type(error.args, tuple[Any, ...])
    save_pretrained(model, 'folder')
    assert_type(push_to_hub(model, 'owner/name'), str)
    return model


def predict(image: np.ndarray) -> list[str]:
    predictor = Predictor('ssdlite_mobilevitv2_100', device='cpu')
    found = predictor(image, score_thr=0.3)
    names: list[str] = []
    for result in found if isinstance(found, list) else [found]:
        assert_type(result, Detections | LabelMap | ClassScores)
        names += result.names
    exported = ExportedPredictor('model.onnx', threads=1)
    assert_type(exported.classes, tuple[str, ...])
    exported([image], score_thr=0.3)
    return names
