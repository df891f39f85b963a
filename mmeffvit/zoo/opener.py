"""Build the model of a source and load its weights."""

from dataclasses import dataclass, replace
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DefaultScope
from torch import nn

from mmeffvit.config.build import build_model, own_model_config, silenced
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.models.backbone import log_report
from mmeffvit.models.checkpoints import Checkpoint, load_into

from .identify import naming
from .source import Source


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
    """The model of a source, whose weights are not loaded or initialized yet, and its test data.

    Raises:
        UserError: If it cannot be built.
    """
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

    Args:
        source: See :func:`.source.find_source`.
        checkpoint: See :meth:`Source.open_weights`; None leaves the initial weights.
        new_classes: Randomly initialize layers for another number of classes.

    Raises:
        UserError: If the model cannot be built.
        CheckpointError: If the weights do not fit.
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
