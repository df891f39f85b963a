"""Checks before a run starts: missing files, invalid annotations, mismatched classes."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn
from torch.utils.data import DataLoader

from mmeffvit.config.datasets import datasets_of, prefixes_of
from mmeffvit.errors import UserError
from mmeffvit.models.backbone import log_report
from mmeffvit.models.checkpoints import Checkpoint, load_into
from mmeffvit.utils.text import counted, listed
from mmeffvit.zoo.identify import naming
from mmeffvit.zoo.models import OpenModel, build_source
from mmeffvit.zoo.source import Source

from .classes import check_heads


def check_paths(config: Config, splits: tuple[str, ...]) -> None:
    """Check that every annotation file and image folder of the data loaders exists."""
    for split in splits:
        if config.get(f'{split}_dataloader') is None and split != 'val':
            raise UserError(f'{config.filename} has no {split}_dataloader')
        for dataset in datasets_of(config, split):
            check_dataset_paths(dataset, split)


def check_dataset_paths(dataset: Mapping, name: str) -> None:
    """See :func:`check_paths`; messages begin with the name of the data."""
    for kind, path in paths_of(dataset):
        if not path.exists():
            raise UserError(
                f'{name} data: {kind} {str(path)!r} does not exist (in {path.parent.resolve()}). '
                'Put the dataset there, set DATA_ROOT, or pass --cfg-options data_root=FOLDER'
            )


def paths_of(dataset: Mapping) -> Iterator[tuple[str, Path]]:
    """The annotation file and the folders of a dataset that are on this machine."""
    root = dataset.get('data_root') or ''
    named = [('annotation file', dataset.get('ann_file'))]
    named += [('folder', path) for path in prefixes_of(dataset).values()]
    for kind, path in named:
        if isinstance(path, str) and path and '://' not in root + path:
            yield kind, Path(root) / path


def check_batches(loader: DataLoader, split: str) -> None:
    """Check that a data loader has a batch.

    Raises:
        UserError: If it has too few images.
    """
    if isinstance(loader.dataset, Sized) and not len(loader):
        raise UserError(
            f'{split} data: {counted(len(loader.dataset), "image")} in {split}_dataloader make no '
            'batch: lower its batch_size, or set drop_last=False'
        )


def load_checked(
    model: nn.Module, checkpoint: Checkpoint, dataset: Any, split: str = 'test'
) -> None:
    """Load a checkpoint into a model, if it was trained on the classes of the data.

    It is of a run with the same config, or of its released model. To continue training, for another
    split than 'test', auxiliary heads are needed.

    Raises:
        UserError: If the classes differ.
        CheckpointError: If the weights do not fit.
    """
    check_classes(str(checkpoint), checkpoint.dataset_meta.get('classes'), dataset, split)
    with naming():
        report = load_into(model, checkpoint, resume=split != 'test')
    if checkpoint.release:
        log_report(report)


def check_classes(name: str, trained: Sequence[str] | None, dataset: Any, split: str) -> None:
    """Compare the classes of a trained model and of a dataset, if both are known.

    Raises:
        UserError: If they differ.
    """
    tested = (getattr(dataset, 'metainfo', None) or {}).get('classes')
    if trained is not None and tested is not None and tuple(trained) != tuple(tested):
        raise UserError(
            f'{name} was trained on the classes {listed(trained)} ({len(trained)}), but the '
            f'{split} data has {listed(tested)} ({len(tested)}). Use the config it was trained with'
        )


def open_checked(source: Source, given: str | Path | None) -> OpenModel:
    """Build the model of a source and load weights of its classes, by default its own.

    Raises:
        UserError: If the model cannot be built, or the data or the checkpoint has other classes.
        CheckpointError: If the weights cannot be read, or do not fit.
    """
    checkpoint = source.open_weights(given)
    opened = build_source(source)
    with DefaultScope.overwrite_default_scope(source.config.default_scope):
        check_heads(opened.model, opened.dataset, 'test')  # the data is not read
        load_checked(opened.model, checkpoint, opened.dataset)
    return replace(opened, checkpoint=checkpoint)
