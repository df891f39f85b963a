"""Models by name or of a source, with or without weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DefaultScope
from torch import nn

from mmeffvit.config.build import build_model, own_model_config, silenced
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.config.load import ALL, open_config
from mmeffvit.errors import UserError
from mmeffvit.models import families
from mmeffvit.models.backbone import log_report
from mmeffvit.models.checkpoints import Checkpoint, load_into

from .identify import naming
from .metafile import Model, find_model
from .saved import open_saved, read_saved
from .source import Kind, Source, classify, find_source


@dataclass(frozen=True)
class OpenModel:
    """A model of mmdet, mmseg or mmpretrain with its weights."""

    model: nn.Module  # in training mode
    config: Config
    checkpoint: Checkpoint | None  # None for initial weights
    dataset: BaseDataset | None  # of the test, not loaded

    @property
    def dataset_meta(self) -> dict[str, Any]:
        """Classes and palette of the checkpoint, else of the data."""
        saved = self.checkpoint.dataset_meta if self.checkpoint else {}
        return {**(getattr(self.dataset, 'metainfo', None) or {}), **saved}


def build_source(source: Source) -> OpenModel:
    """The model of a source, whose weights are not loaded or initialized yet, and its test data."""
    config = source.config
    with DefaultScope.overwrite_default_scope(config.default_scope), silenced():
        settings = eval_dataset(config)
        dataset = build_unread(settings) if settings else None
        model = build_model(own_model_config(config))
    return OpenModel(model, config, None, dataset)


def open_model(
    source: Source, checkpoint: Checkpoint | None, *, new_classes: bool = False
) -> OpenModel:
    """Build the model of a source and load a checkpoint; the default scope is unchanged.

    Without a checkpoint it has initial weights; with ``new_classes``, so have layers for another
    number of classes.
    """
    opened = build_source(source)
    with DefaultScope.overwrite_default_scope(source.config.default_scope):
        if checkpoint is None:
            with silenced():
                opened.model.init_weights()
        else:
            with naming():
                report = load_into(opened.model, checkpoint, new_classes=new_classes)
            log_report(report)
    return replace(opened, checkpoint=checkpoint)


def get_model(
    name: str | Path,
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
    name = str(name)
    kind = classify(name)
    if kind in (Kind.SAVED, Kind.RUN, Kind.FOLDER):
        if pretrained or cfg_options or options:
            raise UserError(f'{name} has its own weights and settings: give it alone')
        if kind is Kind.SAVED:
            return get_saved(name)
        source = find_source(name, scopes=ALL)  # rejects a folder without a run
        return with_config(open_model(source, source.own))
    model = find_model(name)
    if model.config is None:
        if cfg_options is not None:
            raise UserError(f'{name} is a backbone and has no config: give its arguments instead')
        return get_backbone(model, pretrained, options)
    if options:
        raise UserError(
            f'{name} takes no argument {", ".join(options)}: give cfg_options with dotted keys'
        )
    source = Source(name, open_config(model.config, cfg_options, ALL))
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
    arguments = {key: value for key, value in options.items() if key != 'init_cfg'}
    backbone.recipe = dict(name=model.name, arguments=arguments)  # saved with its weights
    return backbone


def get_saved(name: str) -> nn.Module:
    """The model of a folder of :func:`mmeffvit.save_pretrained`, or of transformers."""
    content, weights = read_saved(name)
    known = find_model(content['name'])
    if known.config is None:
        return get_backbone(known, weights, content.get('arguments') or {})
    source = Source(name, open_saved(name, content, scopes=ALL), weights)
    return with_config(open_model(source, source.own))


def with_config(opened: OpenModel) -> nn.Module:
    """The model, which carries its config as ``cfg`` and its classes as ``dataset_meta``."""
    opened.model.cfg, opened.model.dataset_meta = opened.config, opened.dataset_meta
    return opened.model
