"""Models as folders, as on the Hugging Face Hub: weights, config and model card.

A folder names a model of this package and the numbers that differ from its config. It has no config
of its own, since one of mmengine can call any function of any installed package.
"""

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import nn

from mmeffvit.config.build import own_model_config
from mmeffvit.config.datasets import eval_dataset, take_classes
from mmeffvit.config.load import DENSE, load_config, open_config, own_configs
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.models.checkpoints.grids import grid_text, grids_in
from mmeffvit.models.checkpoints.sources import HUB_FILES, fetch
from mmeffvit.utils.files import check_output, read_json, write_file
from mmeffvit.utils.optional import require
from mmeffvit.utils.schema import (
    Field,
    are_names,
    check_fields,
    is_dict,
    is_number,
    is_palette,
    is_text,
)
from mmeffvit.utils.text import first_line
from mmeffvit.version import __version__

from .card import model_card
from .identify import describe
from .metafile import find_model, read_models

WEIGHTS, CONFIG, CARD = 'model.safetensors', 'config.json', 'README.md'
KIND = 'mmeffvit'  # the key of a config that is ours
HUB = 'hf://'
PLAIN = (bool, int, float, type(None))
MAX_NUMBER = 2**16  # in a saved model
MAX_DEPTH = 4  # of lists of numbers


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether it is a finite number, or made of such numbers alone."""
    if isinstance(value, list | tuple):
        return depth > 0 and all(is_plain(item, depth - 1) for item in value)
    return isinstance(value, PLAIN) and (not isinstance(value, float) or is_number(value))


def are_numbers(value: Any) -> bool:
    """Whether these are numbers of a model by dotted keys."""
    return is_dict(value) and all(
        key.startswith('model.') and is_plain(item) for key, item in value.items()
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


def holds_model(name: str) -> bool:
    """Whether a folder has a saved model, as every repository of the hub is assumed to have."""
    folder = Path(name)
    is_saved = (folder / CONFIG).is_file() and any((folder / f).is_file() for f in HUB_FILES)
    return name.startswith(HUB) or is_saved


def save_pretrained(
    model: nn.Module,
    folder: str | Path,
    *,
    metrics: Mapping[str, float] | None = None,
    license: str | None = None,
    picture: str | Path | None = None,
) -> Path:
    """Write weights, config and a model card, which :func:`mmeffvit.get_model` reads back.

    Args:
        model: A model from :func:`mmeffvit.get_model`, or a model of mmdet or mmseg whose ``cfg``
            differs from one of our configs only in numbers, such as the number of classes.
        folder: Output folder, created if missing; the three files in it are replaced.
        metrics: Metrics of the model, in percent, by name: ``{'box AP': 21.2}``.
        license: License of the weights; by default the released weights' license.
        picture: Image for the card, such as a visualization of a prediction.

    Returns:
        The folder.

    Raises:
        UserError: If it is not a mmeffvit model, or the folder cannot be written.
    """
    save = require('safetensors.torch', 'a saved model').save
    content = describe_model(model)
    folder = check_output(folder, folder=True)
    if picture is not None:
        picture = Path(picture)
        if not picture.is_file() or picture.name in (WEIGHTS, CONFIG, CARD):
            raise UserError(f'picture {str(picture)!r} is not a file that a card can show')
    known = find_model(content[KIND]['name'])
    classes = content[KIND].get('classes', ())
    card = model_card(known, classes, metrics or {}, license, picture and picture.name)
    state = model.state_dict()
    tensors = {key: value.detach().cpu().contiguous() for key, value in state.items()}
    meta = {'format': 'pt', 'model': known.name, **grid_text(grids_in(state))}
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        WEIGHTS: save(tensors, metadata=meta),
        CONFIG: json.dumps(content, indent=1),
        CARD: card,
    }
    for name, data in files.items():
        write_file(folder / name, data)
    if picture is not None and picture.resolve() != (folder / picture.name).resolve():
        write_file(folder / picture.name, picture.read_bytes())
    return folder


def push_to_hub(model: nn.Module, repository: str, **options: Any) -> str:
    """Save a model like :func:`save_pretrained`, to a repository on the Hugging Face Hub.

    Args:
        model: See :func:`save_pretrained`.
        repository: OWNER/NAME; created if missing. Access is granted by ``hf auth login`` or
            ``HF_TOKEN``.
        options: Those of :func:`save_pretrained`, and ``private``.

    Returns:
        The URL of the commit.

    Raises:
        UserError: If the model cannot be saved, or the hub rejects it or cannot be reached.
    """
    api = require('huggingface_hub', 'push_to_hub').HfApi()
    private = options.pop('private', None)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, **options)
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))
        except Exception as error:  # of the hub or of its HTTP client, which differs by release
            raise UserError(
                f'{repository!r} cannot be pushed to the Hugging Face hub ({first_line(error)}): '
                'log in with `hf auth login`, or save_pretrained(model, FOLDER) and upload the '
                'folder'
            ) from error


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The content of ``config.json`` for a model, which must be one of ours."""
    if isinstance(model, Backbone):
        recipe = getattr(model, 'recipe', None)
        if recipe is None:
            raise UserError('a backbone is saved with its arguments: build it with get_model(NAME)')
        return {KIND: dict(**recipe, version=__version__)}
    config = getattr(model, 'cfg', None)
    if not isinstance(config, Config):
        raise UserError(
            f'{type(model).__name__} has no config: build it with get_model(NAME), or set its '
            '`cfg` to the Config it was built from'
        )
    content = describe_config(*nearest_config(config), getattr(model, 'dataset_meta', None) or {})
    return {KIND: dict(**content, version=__version__)}


def describe_config(
    name: str, numbers: Mapping[str, Any], meta: Mapping[str, Any]
) -> dict[str, Any]:
    """A config by its name, the numbers that differ, and the classes and palette of its data."""
    palette = meta.get('palette')
    colors = palette if isinstance(palette, list | tuple) else ()  # mmdet has names, too
    return dict(
        name=name,
        cfg_options=numbers,
        classes=list(meta.get('classes') or ()),
        palette=[list(map(int, color)) for color in colors],
    )


def nearest_config(config: Config) -> tuple[str, dict[str, Any]]:
    """The one of our configs whose model differs from ``config``'s only in numbers.

    Returns:
        Its name, and the numbers by dotted keys.
    """
    wanted = dict(values_in(own_model_config(config), 'model'))
    own = own_configs()
    stem = Path(config.filename or '').stem
    best: tuple[str, dict[str, Any]] | None = None
    for name in sorted(own, key=lambda name: name != stem):
        other = load_config(own[name])
        if other.default_scope != config.default_scope:
            continue
        options = differences(dict(values_in(own_model_config(other), 'model')), wanted)
        if options is not None and (best is None or len(options) < len(best[1])):
            best = name, options
        if best is not None and (name == stem or not best[1]):
            break
    if best is None:
        raise UserError(
            f'the model of {config.filename} differs from all our configs in more than '
            'numbers: share its config and a checkpoint instead'
        )
    return best


def values_in(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The values of a config by dotted keys; a list of numbers is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from values_in(item, f'{place}.{key}')
    elif isinstance(value, list | tuple) and not is_plain(value):
        for number, item in enumerate(value):
            yield from values_in(item, f'{place}.{number}')
    else:
        yield place, list(value) if isinstance(value, tuple) else value


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The numbers of ``wanted`` that differ in ``known``; None if more than numbers differ."""
    if known.keys() != wanted.keys():
        return None
    changed = {key: value for key, value in wanted.items() if value != known[key]}
    plain = all(is_plain(value) and is_plain(known[key]) for key, value in changed.items())
    return changed if plain else None


def config_of_saved(
    name: str,
    content: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
) -> Config:
    """The config of a saved model, see :func:`read_folder`, with its classes in the datasets."""
    path = find_model(content['name']).config
    if path is None:
        raise UserError(f'{name} is a backbone, {content["name"]}: load it with get_model')
    numbers = content.get('cfg_options') or {}
    check_numbers(name, numbers, dict(values_in(load_config(path).model, 'model')))
    config = open_config(path, {**numbers, **(options or {})}, scopes)
    if content.get('classes') and eval_dataset(config):
        take_classes(config, content['classes'], content.get('palette') or ())
    return config


def check_numbers(name: str, numbers: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Check that numbers of a saved model have the type and the sign that its config's have."""
    for key, value in numbers.items():
        own = known.get(key)
        floor = min(own, 0) if is_number(own) else 0
        flat = value if isinstance(value, list) else [value]
        fits = type(value) is type(own) or {type(value), type(own)} <= {int, float}
        in_range = all(floor <= v <= MAX_NUMBER for v in flat if is_number(v))
        if key in known and own is not None and not (fits and in_range):
            raise UserError(
                f'{name}: {key} is {value!r:.80}; it must be like {own!r:.80}, from {floor} to '
                f'{MAX_NUMBER}'
            )


def read_folder(name: str) -> tuple[dict[str, Any], Path | Checkpoint]:
    """The validated content of ``config.json`` of a saved model, and its weights.

    A repository that only has weights, in a known layout, is described by these.

    Args:
        name: A folder, or ``hf://OWNER/NAME[@REVISION]``.

    Raises:
        UserError: If there is no such model, or it asks for more than names and numbers.
        CheckpointError: If a file cannot be found or downloaded.
    """
    if name.startswith(HUB):
        weights, path = fetch(name), fetch(f'{name}/{CONFIG}')
    else:
        folder, path = Path(name), Path(name) / CONFIG
        if not path.is_file():
            raise UserError(
                f'folder {name!r} holds no saved model and no run: it has neither {CONFIG} with '
                'weights nor a config with checkpoints'
            )
        found = (folder / file for file in HUB_FILES if (folder / file).is_file())
        weights = next(found, folder / WEIGHTS)
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
