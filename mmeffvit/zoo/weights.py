"""Released weights by the name of their model, under the license that they come with."""

import re
from pathlib import Path

from mmeffvit.checkpoints.sources import Release
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

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
        names = listed(list_models(task=task, pretrained=True), 6) if task else ''
        hint = f'; models that have: {names}' if names else ''
        if not is_ours:
            hint = ', or the work dir of its run in place of the config'
        raise UserError(f'no weights are released for {config}: give a CHECKPOINT{hint}')
    return model.weights


def find_release(address: str) -> Release | None:
    """The metafile's entry for the weights at an address; None if there is none."""
    place = repository_of(address)
    model = next((m for m in read_models().values() if repository_of(m.weights) == place), None)
    return model and Release(license_notice(model), model.weights_sha256)


def repository_of(address: str | None) -> str | None:
    """An address of the hub without revision and file; any other is returned unchanged."""
    match = re.match(r'hf://[^/@]+/[^/@]+', address or '')
    return match[0] if match else address


def license_notice(model: Model) -> str:
    """Authors and license of released weights."""
    copied = "timm's copy of the " if model.weights_layout == 'timm' else ''
    return (
        f'{model.name}: {copied}weights of the authors of {model.family} from {model.weights}, '
        f'license: {model.license["Name"]}, {model.license["URL"]}'
    )
