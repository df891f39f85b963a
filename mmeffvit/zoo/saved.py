"""Read a saved model: a folder, or a repository of the Hugging Face Hub.

It names a model of this package and the numbers that differ from its config. It has no config of
its own, since one of mmengine can call any function of any installed package.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.datasets import eval_dataset, take_classes
from mmeffvit.config.load import DENSE, load_config, open_config
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.models.checkpoints.sources import HUB_FILES, fetch
from mmeffvit.utils.files import read_json
from mmeffvit.utils.schema import (
    Field,
    are_names,
    check_fields,
    is_dict,
    is_number,
    is_palette,
    is_text,
)

from .identify import describe
from .metafile import find_model, read_models
from .nearest import MAX_DEPTH, PIPELINE, checked_sizes, flat_values, is_plain, resizing_of

CONFIG = 'config.json'
KIND = 'mmeffvit'  # the key of a config that is ours
HUB = 'hf://'
MAX_NUMBER = 2**16  # in a saved model


def are_numbers(value: Any) -> bool:
    """Whether these are numbers of a model and its test pipeline by dotted keys."""
    return is_dict(value) and all(
        key.startswith(('model.', f'{PIPELINE}.')) and is_plain(item) for key, item in value.items()
    )


def are_arguments(value: Any) -> bool:
    """Whether these are arguments of a backbone, without weights."""
    return is_dict(value) and 'init_cfg' not in value and is_shallow(value)


def is_shallow(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether it is made of names, numbers, and lists and dicts of these."""
    if isinstance(value, list | Mapping):
        items = value.values() if isinstance(value, Mapping) else value
        return depth > 0 and all(is_shallow(item, depth - 1) for item in items)
    small = not is_number(value) or abs(value) <= MAX_NUMBER
    return (is_text(value) or is_plain(value)) and small


SAVED = (  # `config.json` of a saved model
    Field(KIND, is_dict, 'a dict', required=True),
    Field(f'{KIND}.name', is_text, 'the name of a model', required=True),
    Field(f'{KIND}.cfg_options', are_numbers,
          "numbers of the model by keys such as 'model.bbox_head.num_classes'"),
    Field(f'{KIND}.arguments', are_arguments, 'names and numbers, without other weights'),
    Field(f'{KIND}.classes', are_names, 'a list of names'),
    Field(f'{KIND}.palette', is_palette, 'a list of colors, three integers from 0 to 255 each'),
)  # fmt: skip


def read_saved(name: str) -> tuple[dict[str, Any], Path | Checkpoint]:
    """The validated content of ``config.json`` of a saved model, and its weights.

    A repository that only has weights, in a known layout, is described by these.

    Args:
        name: A folder with both files, or ``hf://OWNER/NAME[@REVISION]``.

    Raises:
        UserError: If there is no such model, or it asks for more than names and numbers.
        CheckpointError: If a file cannot be found or downloaded.
    """
    if name.startswith(HUB):
        weights, path = fetch(name), fetch(f'{name}/{CONFIG}')
    else:
        weights = next(file for each in HUB_FILES if (file := Path(name, each)).is_file())
        path = Path(name, CONFIG)
    saved = read_json(path)
    content = saved.get(KIND) if isinstance(saved, Mapping) else None
    if content is None:
        checkpoint = open_checkpoint(weights)
        return described_by_weights(name, checkpoint), checkpoint
    check_fields(saved, SAVED, path)
    if content['name'] not in read_models():
        raise UserError(f'{path} names no model of this version: {content["name"]!r:.80}')
    return dict(content), weights


def described_by_weights(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """The model of a third-party repository, such as one of transformers, by its layout."""
    found = describe(checkpoint.weights) if checkpoint.release else None
    if found not in read_models():
        raise CheckpointError(
            f'{name} is not a model saved by mmeffvit, and its weights do not belong to a known '
            'detector or segmentor; for a backbone, get_model(BACKBONE, pretrained=ADDRESS)'
        )
    return dict(name=found)


def open_saved(
    name: str,
    content: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
) -> Config:
    """The config of a saved model, see :func:`read_saved`, with its classes in the datasets."""
    path = find_model(content['name']).config
    if path is None:
        raise UserError(f'{name} is a backbone, {content["name"]}: load it with get_model')
    numbers = content.get('cfg_options') or {}
    base = load_config(path)
    known = dict(flat_values(base.model, 'model')) | resizing_of(base)
    sizes = checked_sizes(name, numbers)
    check_numbers(name, numbers, known)
    config = open_config(path, {**numbers, **sizes, **(options or {})}, scopes)
    if content.get('classes') and eval_dataset(config):
        take_classes(config, content['classes'], content.get('palette') or ())
    return config


def check_numbers(name: str, numbers: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Check that numbers of a saved model have the type and the sign that its config's have."""
    for key, value in numbers.items():
        own = known.get(key)
        if key.startswith(PIPELINE) and key not in known:
            raise UserError(f'{name}: {key} is no setting of its test pipeline')
        floor = min(own, 0) if is_number(own) else 0
        flat, like = (v if isinstance(v, list | tuple) else [v] for v in (value, own))
        kinds = {type(v) for v in (*flat, *like)}  # one side or two may be given
        fits = type(value) is type(own) or kinds <= {int, float}
        in_range = all(floor <= v <= MAX_NUMBER for v in flat if is_number(v))
        if key in known and own is not None and not (fits and in_range):
            raise UserError(
                f'{name}: {key} is {value!r:.80}; it must be like {own!r:.80}, from {floor} to '
                f'{MAX_NUMBER}'
            )
