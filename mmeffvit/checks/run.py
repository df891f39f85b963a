"""What is wrong with a run is said before it starts: missing files, classes that do not match."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.runner.checkpoint import load_state_dict
from torch import nn

from mmeffvit.config.datasets import datasets_of
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .classes import wrong_classes

MAX_COMPLAINT = 500  # characters of a list of tensors


def check_data(config: Config, splits: tuple[str, ...]) -> None:
    """Look for every annotation file and image folder that the data loaders name.

    Args:
        config: The config of the run.
        splits: Of 'train', 'val', 'test', those that the run uses.

    Raises:
        UserError: If one is missing; the message says where it was looked for.
    """
    for split in splits:
        for dataset in datasets_of(config, split):
            for kind, path in _paths(dataset):
                if not path.exists():
                    raise UserError(
                        f'{split} data: {kind} {str(path)!r} does not exist (in '
                        f'{path.parent.resolve()}). Put the data set there, set DATA_ROOT, or pass '
                        f'--cfg-options data_root=FOLDER'
                    )


def _paths(dataset: Mapping) -> Iterator[tuple[str, Path]]:
    root = dataset.get('data_root') or ''
    named = [('annotation file', dataset.get('ann_file'))]
    named += [('folder', path) for path in (dataset.get('data_prefix') or {}).values()]
    for kind, path in named:
        if isinstance(path, str) and path and '://' not in root + path:
            yield kind, Path(root) / path


def check_classes(model: nn.Module, dataset: Any, split: str) -> None:
    """Compare the classes of a built data set with its annotation file and with the heads.

    Args:
        model: The model.
        dataset: The data set of a loader, wrapped or not.
        split: Its name in messages.

    Raises:
        UserError: If a class has no category in the annotation file, or a head has another number.
    """
    classes = (getattr(dataset, 'metainfo', None) or {}).get('classes')
    if classes is None:
        return
    _check_categories(dataset, classes, split)
    for text in wrong_classes(model, {split: dataset.metainfo}):
        raise UserError(text)


def _check_categories(dataset: Any, classes: tuple[str, ...], split: str) -> None:
    category_ids = getattr(dataset, 'cat_ids', None)  # of a COCO-style data set
    if category_ids is None or len(category_ids) == len(classes):
        return
    with open(dataset.ann_file) as file:
        present = [category['name'] for category in json.load(file)['categories']]
    absent = [name for name in classes if name not in present]
    raise UserError(
        f'{split} data: {dataset.ann_file} has no category named {listed(absent)}; it has '
        f'{listed(present)}. Set metainfo=dict(classes=...) of the data set to names in the file'
    )


def check_checkpoint(model: nn.Module, checkpoint: Mapping, path: str, dataset: Any) -> None:
    """Refuse to test weights of another model or of other classes.

    Args:
        model: The model, as built; it gets the weights.
        checkpoint: What :func:`mmeffvit.checkpoints.read.load_torch_file` returned.
        path: The file, for messages.
        dataset: The data set to test on.

    Raises:
        UserError: If a tensor is missing, left over or of another shape, or the classes differ.
    """
    trained = ((checkpoint.get('meta') or {}).get('dataset_meta') or {}).get('classes')
    tested = (getattr(dataset, 'metainfo', None) or {}).get('classes')
    if trained is not None and tested is not None and tuple(trained) != tuple(tested):
        raise UserError(
            f'{path} was trained on the classes {listed(trained)} ({len(trained)}), but the test '
            f'data has {listed(tested)} ({len(tested)}). Use the config it was trained with'
        )
    state = checkpoint.get('state_dict', checkpoint)
    saved = {key.removeprefix('module.'): value for key, value in state.items()}
    try:
        # the runner's own way to load, with the conversions that modules know, but strict
        load_state_dict(model, saved, strict=True)
    except RuntimeError as error:
        wrong = '; '.join(line.strip() for line in str(error).splitlines() if line.strip())
        raise UserError(
            f'{path} does not fit the model of the config, use the one it was trained with: '
            f'{wrong[:MAX_COMPLAINT]}'
        ) from error
