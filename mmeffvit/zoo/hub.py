"""Save models as folders, as on the Hugging Face Hub: weights, config and model card."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints.sources import HUB_FILES
from mmeffvit.models.checkpoints.state import safetensors_file
from mmeffvit.utils.files import check_output, write_file
from mmeffvit.utils.optional import require
from mmeffvit.utils.schema import check_fields
from mmeffvit.utils.text import first_line
from mmeffvit.version import __version__

from .card import model_card
from .metafile import find_model
from .nearest import describe_config, nearest_with_sizes
from .saved import CONFIG, KIND, SAVED

FILE, CARD = HUB_FILES[0], 'README.md'


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
    require('safetensors.torch', 'a saved model')
    content = describe_model(model)
    folder = check_output(folder, folder=True)
    if picture is not None:
        picture = Path(picture)
        if not picture.is_file() or picture.name in (FILE, CONFIG, CARD):
            raise UserError(f'picture {str(picture)!r} is not a file that a card can show')
    known = find_model(content[KIND]['name'])
    classes = content[KIND].get('classes', ())
    card = model_card(known, classes, metrics or {}, license, picture and picture.name)
    files = {
        FILE: safetensors_file(model.state_dict(), model=known.name),
        CONFIG: json.dumps(content, indent=1),
        CARD: card,
    }
    folder.mkdir(parents=True, exist_ok=True)
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
        options: Options of :func:`save_pretrained`, and ``private``.

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
        content = {KIND: dict(**recipe, version=__version__)}
        content = json.loads(json.dumps(content, default=list))  # tuples and ranges as lists
        check_fields(content, SAVED, recipe['name'])
        return content
    config = getattr(model, 'cfg', None)
    if not isinstance(config, Config):
        raise UserError(
            f'{type(model).__name__} has no config: build it with get_model(NAME), or set its '
            '`cfg` to the Config it was built from'
        )
    meta = getattr(model, 'dataset_meta', None) or {}
    content = describe_config(*nearest_with_sizes(config), meta)
    return {KIND: dict(**content, version=__version__)}
