"""Released weights by the name of their model, under the license that they come with."""

import sys
from pathlib import Path

from mmeffvit.checkpoints.sources import fetch, place_of
from mmeffvit.errors import UserError

from .metafile import Model, list_models, read_models


def weights_of(config: str | Path) -> str:
    """The address of the released weights for one of our own configs.

    Args:
        config: Its name or its path.

    Raises:
        UserError: If there are none.
    """
    model = read_models().get(Path(config).stem)
    is_ours = model is not None and model.config is not None
    if is_ours and Path(config).is_file():
        is_ours = Path(config).resolve() == model.config.resolve()
    if not is_ours or model.weights is None:
        task = model.tasks[0] if is_ours else None
        names = ', '.join(list_models(task=task, pretrained=True)[:6]) if task else ''
        hint = f'; models that have: {names} ...' if names else ''
        raise UserError(f'no weights are released for {config}: give a CHECKPOINT{hint}')
    return model.weights


def fetch_released(checkpoint: str) -> Path:
    """As :func:`mmeffvit.checkpoints.sources.fetch`, with what is known of a release.

    Before a download its license is printed, and afterwards the file is compared with the hash
    that the metafile has, if there is one.

    Raises:
        mmeffvit.checkpoints.CheckpointError: If the file cannot be found or downloaded.
    """
    if not checkpoint.startswith(('http://', 'https://')):
        return fetch(checkpoint)
    model = next((model for model in read_models().values() if model.weights == checkpoint), None)
    if model is None:
        return fetch(checkpoint)
    if not place_of(checkpoint).is_file():
        print(license_notice(model), file=sys.stderr)
    return fetch(checkpoint, model.weights_sha256)


def license_notice(model: Model) -> str:
    """Whose weights they are, and under which license."""
    return (
        f'{model.name}: weights of the authors of {model.family} from {model.weights}, '
        f'license: {model.license["Name"]}, {model.license["URL"]}'
    )
