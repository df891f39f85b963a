"""Models by name: backbones, detectors and segmentors, with or without released weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from mmeffvit.config.load import ALL
from mmeffvit.errors import UserError
from mmeffvit.models import families
from mmeffvit.models.checkpoints import Checkpoint

from .hub import config_of_saved, holds_model, read_folder
from .metafile import Model, find_model
from .opener import OpenModel, Source, find_source, is_folder, open_model


def get_model(
    name: str,
    pretrained: bool | str | Path = False,
    *,
    cfg_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Build a model of :func:`mmeffvit.list_models`.

    Args:
        name: A config ('ssdlite_mobilevitv2_100') or a backbone ('swiftformer_l1'); or a
            model that was saved, as a folder or as ``hf://OWNER/NAME``, with its weights.
        pretrained: True for the released weights; the path or URL of others, in any layout that can
            be read; False for random weights, also in the backbone.
        cfg_options: For a config: dotted keys and values that override its own, such as
            ``{'model.bbox_head.num_classes': 3}``. Layers for another number of classes than the
            weights have are randomly initialized; the log counts them.
        options: For a backbone: its arguments, such as ``out_indices=(1, 2, 3)``.

    Returns:
        A backbone, or a model of mmdet, mmseg or mmpretrain with its config as ``cfg`` and its
        classes and palette as ``dataset_meta``; in training mode: call ``eval()`` for inference.

    Raises:
        UserError: If there is no such model (the message suggests names), it has no released
            weights, or an option does not fit.
        mmeffvit.models.checkpoints.CheckpointError: If the weights cannot be found or read, or do
            not fit.
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
    source = find_source(name, cfg_options, ALL)
    checkpoint = None
    if pretrained:
        checkpoint = source.open_weights(None if pretrained is True else pretrained)
    return with_config(open_model(source, checkpoint, new_classes=True))


def get_backbone(
    model: Model, pretrained: bool | str | Path | Checkpoint, options: Mapping[str, Any]
) -> nn.Module:
    """A backbone of the metafile, perhaps with weights."""
    family, arch = model.name.split('_', 1)
    cls = next(cls for name, cls in families().items() if name.lower() == family)
    try:
        backbone = cls(arch, **options)
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise UserError(f'{model.name}: {error}') from error
    if pretrained is True and model.weights is None:
        raise UserError(f'no weights are released for {model.name}: give a path or an address')
    if pretrained:
        backbone.load_pretrained(model.weights if pretrained is True else pretrained)
    backbone.recipe = dict(name=model.name, arguments=dict(options))  # saved with it
    return backbone


def get_saved(name: str) -> nn.Module:
    """The model of a folder of :func:`mmeffvit.save_pretrained`, of transformers, or of a run."""
    if holds_model(name):
        content, weights = read_folder(name)
        known = find_model(content['name'])
        if known.config is None:
            return get_backbone(known, weights, content.get('arguments') or {})
        source = Source(name, config_of_saved(name, content, scopes=ALL), saved=weights)
    else:
        source = find_source(name, scopes=ALL)
    return with_config(open_model(source, source.own))


def with_config(opened: OpenModel) -> nn.Module:
    """The model, which carries its config as ``cfg`` and its classes as ``dataset_meta``."""
    model, dataset = opened.model, opened.dataset
    model.cfg = opened.config
    model.dataset_meta = dict(dataset.metainfo) if dataset is not None else {}
    return model
