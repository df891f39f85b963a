"""The model zoo, ``model-index.yml`` and ``configs/metafile/``, in OpenMMLab's format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mmeffvit.errors import UserError
from mmeffvit.utils.files import resource_dir
from mmeffvit.utils.text import did_you_mean, listed

if TYPE_CHECKING:
    from mmeffvit.models.checkpoints.sources import Origin

OURS = 'ours'  # the source of numbers measured with this code
ZOO = "authors' model zoo"
# OpenMMLab's names of tasks, and ours
TASKS = {
    'Image Classification': 'classification',
    'Object Detection': 'detection',
    'Instance Segmentation': 'instance segmentation',
    'Semantic Segmentation': 'segmentation',
}


@dataclass(frozen=True)
class Result:
    """Metrics of a task on the validation set of a dataset.

    Args:
        task: One of the values of ``TASKS``.
        dataset: Such as 'COCO'.
        metrics: Percent, by name: 'box AP', 'mask AP75', 'mIoU'; empty without a number.
        source: A paper and its table, "authors' model zoo", or 'ours'; empty without a number.
    """

    task: str
    dataset: str
    metrics: Mapping[str, float]
    source: str = ''


@dataclass(frozen=True)
class Model:
    """Metadata of a backbone, or of the model of a config.

    Args:
        name: Name of the config without its suffix, or of the backbone: 'swiftformer_l1'.
        family: The collection that it belongs to, such as 'SwiftFormer'.
        config: Path of the config; None for a backbone.
        architecture: Head and backbone, or the backbone alone.
        parameters: Parameters of the full model; for a backbone without its classifier.
        macs: MACs of one image of ``input_size``.
        input_size: Height and width in pixels.
        results: At least one, which names task and dataset.
        weights: URL of released weights.
        weights_layout: Key layout of these: 'cvnets', 'mmdet 2' or 'timm'.
        license: 'Name' and 'URL' of the license of released weights.
        metadata: Everything that the metafile says of it, the recipe included.
        weights_sha256: Hexadecimal digest of the file of the weights; empty if unknown.
    """

    name: str
    family: str
    config: Path | None
    architecture: tuple[str, ...]
    parameters: int
    macs: int
    input_size: tuple[int, int]
    results: tuple[Result, ...]
    weights: str | None
    weights_layout: str | None
    license: Mapping[str, str] | None
    metadata: Mapping[str, Any]
    weights_sha256: str = ''

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(result.task for result in self.results))

    @property
    def dataset(self) -> str:
        return self.results[0].dataset

    def metrics_by_source(self) -> dict[str, dict[str, float]]:
        """Metrics of all tasks by their source, in the order of the metafile."""
        found: dict[str, dict[str, float]] = {}
        for result in self.results:
            if result.metrics:
                found.setdefault(result.source, {}).update(result.metrics)
        return found

    def published(self, *, of_weights: bool = False) -> tuple[str, dict[str, float]]:
        """The first source other than our own runs, and its metrics; empty if there is none.

        With ``of_weights``, prefer the authors' model zoo, whose numbers belong to the weights.
        """
        others = [item for item in self.metrics_by_source().items() if item[0] != OURS]
        if of_weights:
            others.sort(key=lambda item: item[0] != ZOO)
        return others[0] if others else ('', {})


@cache
def read_models() -> Mapping[str, Model]:
    """Every model by name, sorted."""
    root = resource_dir('configs').parent
    models: dict[str, Model] = {}
    for imported in yaml.safe_load((root / 'model-index.yml').read_text())['Import']:
        content = yaml.safe_load((root / imported).read_text())
        licenses = {entry['Name']: entry.get('License') for entry in content['Collections']}
        for entry in content['Models']:
            models[entry['Name']] = parse(entry, licenses, root)
    return dict(sorted(models.items()))


def parse(entry: Mapping[str, Any], licenses: Mapping[str, Any], root: Path) -> Model:
    metadata, weights = entry['Metadata'], entry.get('Weights')
    height, width = map(int, metadata['Input Size'].split('x'))
    return Model(
        name=entry['Name'],
        family=entry['In Collection'],
        config=root / entry['Config'] if 'Config' in entry else None,
        architecture=tuple(metadata['Architecture']),
        parameters=metadata['Parameters'],
        macs=metadata['FLOPs'],
        input_size=(height, width),
        results=tuple(
            Result(TASKS[r['Task']], r['Dataset'], r['Metrics'], r.get('Source', ''))
            for r in entry['Results']
        ),
        weights=weights,
        weights_sha256=entry.get('Weights SHA-256', ''),
        weights_layout=entry.get('Weights Layout'),
        license=licenses[entry['In Collection']] if weights else None,
        metadata=metadata,
    )


def list_models(
    pattern: str = '*',
    *,
    task: str | None = None,
    dataset: str | None = None,
    pretrained: bool | None = None,
) -> list[str]:
    """Names of backbones and configs, sorted.

    Args:
        pattern: A shell pattern, such as '*swiftformer*'.
        task: 'classification' (the backbones), 'detection', 'instance segmentation' or
            'segmentation'.
        dataset: The dataset of the evaluation: 'ImageNet-1k', 'COCO', 'ADE20K'..., in any case.
        pretrained: Only models with released weights, or only those without.

    Raises:
        UserError: If there is no such task or dataset.
    """
    models = read_models().values()
    if task is not None:
        check_choice('task', task, set(TASKS.values()))
        models = [model for model in models if task.lower() in model.tasks]
    if dataset is not None:
        check_choice('dataset', dataset, {model.dataset for model in read_models().values()})
        models = [model for model in models if dataset.lower() == model.dataset.lower()]
    if pretrained is not None:
        models = [model for model in models if (model.weights is not None) == pretrained]
    return [model.name for model in models if fnmatchcase(model.name, pattern.lower())]


def check_choice(kind: str, given: str, known: set[str]) -> None:
    if given.lower() not in {name.lower() for name in known}:
        raise UserError(f'no {kind} {given!r}; choose from {", ".join(sorted(known))}')


def find_model(name: str) -> Model:
    """Metadata of a backbone or a config.

    Raises:
        UserError: If there is no such model; the message suggests similar names.
    """
    models = read_models()
    if name not in models:
        hint = did_you_mean(name, models) or '`mmeffvit models` lists all'
        raise UserError(f'no model {name!r}; {hint}')
    return models[name]


def weights_of(config: str | Path) -> str:
    """The URL of the released weights for one of our configs, given by name or path."""
    model = read_models().get(Path(config).stem)
    is_ours = model is not None and model.config is not None
    if is_ours and Path(config).is_file():
        is_ours = Path(config).resolve() == model.config.resolve()
    if is_ours and model.weights is not None:
        return model.weights
    hint = ', or the work dir of its run in place of the config'
    if is_ours:
        names = listed(list_models(task=model.tasks[0], pretrained=True), 6)
        hint = f'; models that have: {names}' if names else ''
    raise UserError(f'no weights are released for {config}: give a CHECKPOINT{hint}')


def find_origin(address: str) -> 'Origin | None':
    """What the metafile knows of the weights at an address; None if they are of no model."""
    from mmeffvit.models.checkpoints.sources import Origin  # imports torch

    place = repository_of(address)
    model = next((m for m in read_models().values() if repository_of(m.weights) == place), None)
    return model and Origin(license_notice(model), model.weights_sha256)


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
