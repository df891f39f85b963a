"""Models by name: backbones, detectors and segmentors, with or without released weights."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import DefaultScope
from torch import nn

from mmeffvit.backbones import families
from mmeffvit.checkpoints.models import load_whole, read_model
from mmeffvit.checkpoints.sources import fetch
from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.config.load import ALL, open_config
from mmeffvit.errors import UserError

from .hub import is_folder, open_described, read_folder
from .metafile import Model, find_model
from .weights import weights_of


def get_model(
    name: str,
    pretrained: bool | str | Path = False,
    *,
    cfg_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Build a model of :func:`mmeffvit.list_models`.

    Args:
        name: Of a config ('ssdlite_mobilevitv2_100') or of a backbone ('swiftformer_l1'); or a
            model that was saved, as a folder or as ``hf://OWNER/NAME``, with its weights.
        pretrained: True for the released weights; a path or an address for others, in any layout
            that can be read; False for none, not even a backbone's.
        cfg_options: Of a config: dotted keys and values that replace its own, such as
            ``{'model.bbox_head.num_classes': 3}``. Layers for another number of classes than the
            weights have start fresh, and a line of the log counts them.
        options: Of a backbone: its arguments, such as ``out_indices=(1, 2, 3)``.

    Returns:
        A model of mmdet, mmseg or mmpretrain, which carries its config as ``cfg`` and its classes
        and palette as ``dataset_meta``, or a backbone. It is in training mode, as torch's modules
        are: call ``eval()`` before a test.

    Raises:
        UserError: If there is no such model (the message has the nearest names), it has no released
            weights, or an option does not fit.
        mmeffvit.checkpoints.CheckpointError: If the weights cannot be found or read, or do not fit.
    """
    if is_folder(name):
        if pretrained or cfg_options or options:
            raise UserError(f'{name} has its own weights and settings: give it alone')
        return get_saved(name)
    model = find_model(name)
    if model.config is None:
        if cfg_options is not None:
            raise UserError(f'{name} is a backbone and has no config: give its arguments instead')
        return get_backbone(model, pretrained, options)
    if options:
        raise UserError(
            f'{name} takes no argument {", ".join(options)}: give cfg_options with dotted keys'
        )
    config = open_config(model.config, cfg_options, ALL)
    checkpoint = weights_of(name) if pretrained is True else pretrained or None
    return build(config, checkpoint, new_classes=True)


def get_backbone(
    model: Model, pretrained: bool | str | Path, options: Mapping[str, Any]
) -> nn.Module:
    """A backbone of the metafile.

    Raises:
        UserError: If an option is unknown or not one of its choices, or no weights are released.
    """
    family, arch = model.name.split('_', 1)
    cls = next(cls for name, cls in families().items() if name.lower() == family)
    try:
        backbone = cls(arch, **options)
    except (TypeError, ValueError) as error:
        raise UserError(f'{model.name}: {error}') from error
    if pretrained is True and model.weights is None:
        raise UserError(f'no weights are released for {model.name}: give a path or an address')
    if pretrained:
        backbone.load_pretrained(model.weights if pretrained is True else pretrained)
    backbone.recipe = dict(name=model.name, arguments=dict(options))  # what a folder says of it
    return backbone


def get_saved(name: str) -> nn.Module:
    """A model that :func:`mmeffvit.save_pretrained` wrote, or transformers' of a known layout.

    Raises:
        UserError: If there is none, or it asks for more than names and numbers.
        mmeffvit.checkpoints.CheckpointError: If a file cannot be read, or does not fit.
    """
    content, weights = read_folder(name)
    known = find_model(content['name'])
    if known.config is None:
        return get_backbone(known, weights, content.get('arguments') or {})
    return build(open_described(name, content, scopes=ALL), weights)


def build(config: Config, checkpoint: str | Path | None, *, new_classes: bool = False) -> nn.Module:
    """The model of a config with the weights of a checkpoint, or with its first values.

    Raises:
        UserError: If the model cannot be built.
        mmeffvit.checkpoints.CheckpointError: If the weights cannot be found or read, or do not fit.
    """
    # as init_default_scope, which complains where the other of mmdet and mmseg worked before
    DefaultScope.get_instance(f'model_{time.time_ns()}', scope_name=config.default_scope)
    model = build_model(own_model_config(config))
    if checkpoint is None:
        model.init_weights()
    else:
        content = read_model(fetch(checkpoint))
        report = load_whole(model, content, checkpoint, new_classes=new_classes)
        print_log(str(report), logger='current')
    model.cfg = config
    settings = eval_dataset(config)
    model.dataset_meta = dict(build_unread(settings).metainfo) if settings else {}
    return model
