"""Models as folders, in the manner of the Hugging Face hub: weights, config and model card.

A folder names a model of this package and the numbers that differ from its config. It holds no
config of its own: one of mmengine can name any function of any installed package, to be called.
"""

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import nn

from mmeffvit.backbones import Backbone
from mmeffvit.checkpoints.models import read_model, release_of
from mmeffvit.checkpoints.sources import HUB_FILES, fetch
from mmeffvit.config.build import own_model_config
from mmeffvit.config.datasets import eval_dataset, take_classes
from mmeffvit.config.load import DENSE, load_config, open_config, own_configs
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.utils.files import atomic_output, check_output
from mmeffvit.utils.optional import require
from mmeffvit.utils.reading import read_json
from mmeffvit.version import __version__

from .card import model_card
from .metafile import find_model, read_models

WEIGHTS, CONFIG, CARD = 'model.safetensors', 'config.json', 'README.md'
KIND = 'mmeffvit'  # the key of a config that is ours
HUB = 'hf://'
PLAIN = (bool, int, float, type(None))


def is_folder(name: str) -> bool:
    """Whether a name stands for a saved model: a folder, or a repository of the hub.

    Other folders may have the name of a model, such as those of its runs.
    """
    return holds_model(name) or (Path(name).is_dir() and name not in read_models())


def holds_model(name: str) -> bool:
    """Whether a saved model lies in a folder; of a repository of the hub it is assumed."""
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
        model: Of :func:`mmeffvit.get_model`, trained further or not, or a model of mmdet or mmseg
            that carries as ``cfg`` the config of one of ours with other numbers, such as classes.
        folder: Is created; the three files in it are replaced.
        metrics: What it reached, in percent, by name: ``{'box AP': 21.2}``.
        license: Of the weights; by default that of the released ones.
        picture: An example for the card, such as one that a predictor drew.

    Returns:
        The folder.

    Raises:
        UserError: If the model is no model of this package, or the folder cannot be written.
    """
    save = require('safetensors.torch', 'a saved model').save
    content = describe_model(model)
    folder = check_output(folder, folder=True)
    picture = None if picture is None else check_picture(Path(picture))
    known = find_model(content[KIND]['name'])
    classes = content[KIND].get('classes', ())
    card = model_card(known, classes, metrics or {}, license, picture and picture.name)
    tensors = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        WEIGHTS: save(tensors, metadata={'format': 'pt', 'model': known.name}),
        CONFIG: json.dumps(content, indent=1).encode(),
        CARD: card.encode(),
    }
    for name, data in files.items():
        with atomic_output(folder / name) as place:
            place.write_bytes(data)
    if picture is not None and picture.resolve() != (folder / picture.name).resolve():
        shutil.copyfile(picture, folder / picture.name)
    return folder


def check_picture(path: Path) -> Path:
    if not path.is_file() or path.name in (WEIGHTS, CONFIG, CARD):
        raise UserError(f'picture {str(path)!r} is no file that a card can show')
    return path


def push_to_hub(model: nn.Module, repository: str, **options: Any) -> str:
    """Save a model as :func:`save_pretrained` does, into a repository of the Hugging Face hub.

    Args:
        model: See :func:`save_pretrained`.
        repository: OWNER/NAME; created if it is not there. Your access is what
            ``hf auth login`` or ``HF_TOKEN`` says.
        options: Those of :func:`save_pretrained`, and ``private``.

    Returns:
        The address of the commit.

    Raises:
        UserError: If the model cannot be saved, or the hub refuses or cannot be reached.
    """
    api = require('huggingface_hub', 'push_to_hub').HfApi()
    private = options.pop('private', None)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, **options)
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))
        except Exception as error:  # of the hub or of its HTTP client, which differs by release
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f'{repository!r} cannot be pushed to the Hugging Face hub ({reason}): log in with '
                '`hf auth login`, or save_pretrained(model, FOLDER) and upload the folder'
            ) from error


def describe_model(model: nn.Module) -> dict[str, Any]:
    """What ``config.json`` says of a model.

    Raises:
        UserError: If it is no model of this package.
    """
    if isinstance(model, Backbone):
        recipe = getattr(model, 'recipe', None)
        if recipe is None:
            raise UserError('a backbone is saved with its arguments: build it by get_model(NAME)')
        return {KIND: dict(**recipe, version=__version__)}
    config = getattr(model, 'cfg', None)
    if not isinstance(config, Config):
        raise UserError(
            f'{type(model).__name__} carries no config: build it by get_model(NAME), or set its '
            '`cfg` to the Config it was built from'
        )
    name, options = nearest_config(config)
    meta = getattr(model, 'dataset_meta', None) or {}
    return {
        KIND: dict(
            name=name,
            cfg_options=options,
            classes=list(meta.get('classes') or ()),
            palette=[list(map(int, color)) for color in as_colors(meta.get('palette'))],
            version=__version__,
        )
    }


def as_colors(palette: Any) -> Any:
    """Colours of a palette; names of palettes, which mmdet has too, are left out."""
    return palette if isinstance(palette, list | tuple) else ()


def nearest_config(config: Config) -> tuple[str, dict[str, Any]]:
    """The one of our configs whose model differs from another's in numbers alone.

    Returns:
        Its name, and the numbers by dotted keys.

    Raises:
        UserError: If there is none.
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
            f'the model of {config.filename} differs from those of all our configs in more than '
            'numbers: share its config and a checkpoint instead'
        )
    return best


def values_in(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every value of a config by its dotted key; a list of numbers is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from values_in(item, f'{place}.{key}')
    elif isinstance(value, list | tuple) and not is_plain(value):
        for number, item in enumerate(value):
            yield from values_in(item, f'{place}.{number}')
    else:
        yield place, list(value) if isinstance(value, tuple) else value


def is_plain(value: Any) -> bool:
    """Whether it is a number, or made of numbers alone."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The numbers of ``wanted`` that ``known`` has otherwise; None if more than numbers differ."""
    if known.keys() != wanted.keys():
        return None
    changed = {key: value for key, value in wanted.items() if value != known[key]}
    plain = all(is_plain(value) and is_plain(known[key]) for key, value in changed.items())
    return changed if plain else None


def open_model(
    target: str, options: Mapping[str, Any] | None = None, scopes: Collection[str] = DENSE
) -> tuple[Config, str | None]:
    """The config of a model by path, by name or as a saved folder, and weights that belong to it.

    Args:
        target: A config, the name of one of ours, or a saved model.
        options: Dotted keys and values that override the config's.
        scopes: Packages that it may be written for.

    Returns:
        The config, and the weights of a saved model; None for a config.

    Raises:
        UserError: If there is none, it is for another package, or the package does not work here.
        CheckpointError: If a file of a saved model cannot be found or downloaded.
    """
    if not is_folder(target):
        return open_config(target, options, scopes), None
    content, weights = read_folder(target)
    return open_described(target, content, options, scopes), str(weights)


def open_described(
    name: str,
    content: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
) -> Config:
    """The config that a saved model describes, with the model's classes in its data sets.

    Raises:
        UserError: If it is a backbone, or an option does not fit.
    """
    path = find_model(content['name']).config
    if path is None:
        raise UserError(f'{name} is a backbone, {content["name"]}: load it by get_model')
    options = {**(content.get('cfg_options') or {}), **(options or {})}
    config = open_config(path, options, scopes)
    if content.get('classes') and eval_dataset(config):
        take_classes(config, content['classes'], content.get('palette') or ())
    return config


def read_folder(name: str) -> tuple[dict[str, Any], Path]:
    """What ``config.json`` says of a saved model, checked, and the file of its weights.

    A repository with weights alone, in a layout that is recognized, is described by these.

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
            raise UserError(f'folder {name!r} holds no saved model: it has no {CONFIG}')
        found = (folder / file for file in HUB_FILES if (folder / file).is_file())
        weights = next(found, folder / WEIGHTS)
    said = read_json(path)
    content = said.get(KIND) if isinstance(said, Mapping) else None
    if content is None:
        return described_by_weights(name, weights), weights
    if not isinstance(content, Mapping) or content.get('name') not in read_models():
        raise UserError(f'{path} names no model of this version: {content!r:.200}')
    options = content.get('cfg_options') or {}
    if not isinstance(options, Mapping) or not all(
        key.startswith('model.') and is_plain(value) for key, value in options.items()
    ):
        raise UserError(f'{path} is refused: cfg_options has more than numbers of the model')
    if 'init_cfg' in (content.get('arguments') or {}):
        raise UserError(f'{path} is refused: it names other weights')
    return dict(content), weights


def described_by_weights(name: str, weights: Path) -> dict[str, Any]:
    """The model of a third-party repository, such as transformers'.

    Raises:
        CheckpointError: If its layout is not known, or there is no config of its model.
    """
    release = release_of(read_model(weights))
    if release is None or release['model'] not in read_models():
        raise CheckpointError(
            f'{name} is no model saved by mmeffvit, and its weights are none of a detector or '
            'segmentor that is known; for a backbone, get_model(BACKBONE, pretrained=ADDRESS)'
        )
    return dict(name=release['model'])
